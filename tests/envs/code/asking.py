"""Asked tests run in this process, for what needs no sandbox. Only for code that the tests themselves wrote."""

import json
import sys
from types import ModuleType

from turngate.envs.code.grading.extracted_asserts import ask_module, holds
from turngate.envs.code.grading.inside import turngate_asking
from turngate.envs.code.grading.returned import read_answers


def answers_of(text, names, test):
    """What one function of an asked module hands over; ``names``: modules that it can import."""
    before = {name: sys.modules.get(name) for name in (*names, "turngate_asking")}
    turngate_asking.records.clear()
    turngate_asking.begin(test)
    try:
        sys.modules["turngate_asking"] = turngate_asking
        for name, members in names.items():
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(members)
        space = {"__name__": "tests"}
        exec(compile(text, "tests", "exec"), space)
        space[test]()
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
    return read_answers("\n".join(turngate_asking.records).encode())


def asked_holds(source, function, test="test_it"):
    """Whether a test of a module that imports ``f`` of ``solution`` holds when asked; None if it cannot be."""
    module = ask_module(source)
    if module is None or test not in module.functions:
        return None
    try:
        answers = answers_of(module.text, {"solution": {"f": function}}, test)
    except Exception:  # beside what is asked: the runner reports a failure
        return False
    return holds(module.functions[test], test, answers)


def record(test, site, answer):
    """A line as the runner writes it."""
    return json.dumps([test, site, answer])
