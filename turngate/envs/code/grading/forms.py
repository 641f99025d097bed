"""The forms in which the tests of a problem are run: as they are, asked (``extracted_asserts.py``), altered
(``altered_tests.py``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from turngate.envs.code.grading.altered_tests import alter, alterable, inherited
from turngate.envs.code.grading.extracted_asserts import AskedPlace, ask_module, holds
from turngate.envs.code.grading.junit import Report, Status
from turngate.envs.code.problem import Problem, Texts

_UNREADABLE = (SyntaxError, ValueError, RecursionError)  # no module, not in UTF-8, or too deep


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFiles:
    """The hidden files, with some test functions in asked form."""

    texts: Texts
    sites: Mapping[str, tuple[AskedPlace, ...]]
    """``path::Class::name`` of each function that is asked → where it hands over values."""


def function_of(test: str) -> str:
    """The function of a test id: ``path::Class::name`` without parameters."""
    return test.partition("[")[0]


def placed(names: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Test id → the id of the same test in another run, in which parameters, and so ids, have other values.

    The tests of one function keep their order; a function with another number of tests is left out.
    """
    tests, found = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name in names:
        tests[function_of(name)].append(name)
    for name in others:
        found[function_of(name)].append(name)
    same = (function for function in tests if len(tests[function]) == len(found[function]))
    return {name: other for function in same for name, other in zip(tests[function], found[function], strict=True)}


def asked_form(problem: Problem, only: Collection[str] | None = None) -> HiddenFiles:
    """The tests with the functions of ``only``, or every one that can be, in asked form."""
    texts, sites = dict(problem.hidden), dict[str, tuple[AskedPlace, ...]]()
    first = 0
    for path, text in _modules(problem, texts):
        names = None if only is None else {name.partition("::")[2] for name in only if name.startswith(f"{path}::")}
        try:
            module = ask_module(text, names, first)
        except _UNREADABLE:
            continue
        if module is not None:
            texts[path] = module.text
            sites |= {f"{path}::{name}": places for name, places in module.functions.items()}
            first += sum(map(len, module.functions.values()))
    return HiddenFiles(texts=texts, sites=sites)


def judged(problem: Problem, form: HiddenFiles, report: Report) -> Report:
    """A report of the asked form, by the ids of the original tests: one that is asked has passed if it is reported so
    and its answers are right."""
    apart = {*problem.asked, *problem.asked.values()}  # ids that only the code under test can have written, or ours
    status: dict[str, Status] = {name: said for name, said in report.status.items() if name not in apart}
    for name, other in problem.asked.items():
        said = report.status.get(other)
        if said is not None:
            right = said == "passed" and holds(form.sites.get(function_of(other), ()), other, report.answers)
            status[name] = said if right or said in ("failed", "error", "skipped") else "failed"
    return replace(report, status=status, answers={})


def alterable_functions(problem: Problem) -> frozenset[str]:
    """``path::Class::name`` of the test functions that are not asked, hold something that can be altered, and are not
    among the files that the agent was shown."""
    asked = {function_of(name) for name in problem.asked}
    found = set[str]()
    for path, text in _modules(problem, problem.hidden):
        try:
            found |= {f"{path}::{name}" for name in alterable(text, problem.original(path) or "")}
        except _UNREADABLE:
            continue
    return frozenset(found - asked)


def heirs(problem: Problem, functions: Collection[str]) -> frozenset[str]:
    """These test functions, and the same ones in classes of their modules that inherit them: they are altered too."""
    found = set(functions)
    for path, text in _modules(problem, problem.hidden):
        own = {name.partition("::")[2] for name in functions if name.startswith(f"{path}::")}
        found |= {f"{path}::{name}" for name in inherited(text, own)} if own else set()
    return frozenset(found)


def altered_texts(problem: Problem, texts: Texts, functions: Collection[str], rng: Random) -> Texts:
    """Texts of the hidden files with the expected values of these test functions replaced."""
    changed = dict(texts)
    for path, text in _modules(problem, texts):
        names = {name.partition("::")[2] for name in functions if name.startswith(f"{path}::")}
        if names:
            changed[path] = alter(text, names, rng)
    return changed


def _modules(problem: Problem, texts: Texts) -> list[tuple[str, str]]:
    found = ((path, texts.get(path)) for path in dict.fromkeys(problem.test_files))
    return [(path, text) for path, text in found if text is not None and path.endswith(".py")]
