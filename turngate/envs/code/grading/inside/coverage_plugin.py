"""A plugin of pytest: which functions of the work folder each test calls, and its seconds of CPU, into a JSON file.

    TURNGATE_COVERAGE=FILE python3 … -p coverage_plugin

Only calls are traced, not lines, so a suite takes about twice its time.
"""

import json
import os
import sys
import threading
import time
from types import CodeType, FrameType

ROOT = os.getcwd() + os.sep
NOTHING = -1
functions: list[tuple[str, str]] = []  # path, qualified name
numbers: dict[tuple[str, str], int] = {}  # a function → its place in the list
known: dict[int, tuple[CodeType, int]] = {}  # id of a code object → itself, so that the id stays its own; its place
tests: dict[str, dict[str, object]] = {}  # test id → {"calls": [place, …], "cpu_s": seconds}
seen: set[int] = set()
start_cpu_s = 0.0


def pytest_runtest_logstart(nodeid: str, location: object) -> None:
    """A test begins, with its fixtures."""
    global start_cpu_s
    start_cpu_s = time.process_time()
    seen.clear()
    threading.settrace(trace)
    sys.settrace(trace)


def pytest_runtest_logfinish(nodeid: str, location: object) -> None:
    """It has ended, and what it used is taken down."""
    sys.settrace(None)
    threading.settrace(None)
    tests[nodeid] = {"calls": sorted(seen - {NOTHING}), "cpu_s": time.process_time() - start_cpu_s}


def pytest_sessionfinish() -> None:
    """Write the file."""
    with open(os.environ["TURNGATE_COVERAGE"], "w", encoding="utf-8") as out:
        json.dump({"functions": functions, "tests": tests}, out)


def trace(frame: FrameType, event: str, argument: object) -> None:
    """A function is called; None as an answer: its lines need no tracing."""
    seen.add(place(frame.f_code))


def place(code: CodeType) -> int:
    """The place of a function in the list; ``NOTHING`` for one outside of the work folder."""
    found = known.get(id(code))
    if found is None:
        path, number = os.path.abspath(code.co_filename), NOTHING
        if path.startswith(ROOT):
            key = (path[len(ROOT) :].replace(os.sep, "/"), code.co_qualname)
            number = numbers.setdefault(key, len(functions))
            if number == len(functions):
                functions.append(key)
        found = known[id(code)] = (code, number)
    return found[1]
