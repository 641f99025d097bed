"""Which tests of a package can be relied on, and which functions each of them calls: measured once per package."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from turngate.envs.code.grading.bench import Bench, run_tests
from turngate.envs.code.mutation.packages import Package
from turngate.envs.code.problem import Problem
from turngate.envs.sandbox import SandboxFileError
from turngate.envs.sandbox.base import TMP
from turngate.errors import TaskRefused

SUITE_S = 600.0
"""A whole suite may take so long."""
MAX_FILE_CPU_S = 8.0
"""The tests of a slower file are not used: every task runs its test files a dozen times."""

MAX_CALLS_BYTES = 64 << 20

_CALLS = f"{TMP}/coverage.json"
_PARTS = re.compile(r"(\.<locals>\.<\w+>)+$")  # lambdas and comprehensions belong to the function that they stand in


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of a package."""

    path: str
    name: str
    """Qualified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was found out about a package's tests."""

    tests: Mapping[Function, frozenset[str]]
    """The stable tests that call a function."""
    stable: frozenset[str]
    """Tests that passed every time, in files that are fast enough."""
    cpu_s: Mapping[str, float]
    """Of the tests of each file, traced; of the CPU, so that a busy machine finds the same files fast enough."""


def file_of(test: str) -> str:
    """The test file of a test id."""
    return test.partition("::")[0]


def measure(package: Package, bench: Bench, *, repetitions: int = 3) -> Coverage:
    """Run the suite ``repetitions`` times, the first time traced.

    Raises TaskRefused if the tests of the package do not run here, or none passes every time.
    """
    problem = _probe(package)
    calls, passed = _traced(problem, bench)
    cpu_s: dict[str, float] = {}
    for name, (_functions, test_s) in calls.items():
        cpu_s[file_of(name)] = cpu_s.get(file_of(name), 0.0) + test_s
    stable = {name for name in passed if cpu_s[file_of(name)] <= MAX_FILE_CPU_S}
    for _ in range(repetitions - 1):
        if stable:
            files = tuple(sorted({file_of(name) for name in stable}))
            stable &= _passing(replace(problem, test_files=files), bench)
    if not stable:
        slow = " within the time that they may take" if passed else ""
        raise TaskRefused(f"none of its tests passes every time{slow}")
    tests: dict[Function, set[str]] = {}
    for name in sorted(stable):
        for function in calls[name][0]:
            tests.setdefault(function, set()).add(name)
    return Coverage(
        tests={function: frozenset(names) for function, names in tests.items()},
        stable=frozenset(stable),
        cpu_s=cpu_s,
    )


def _probe(package: Package) -> Problem:
    """The package as it is, in the form of a problem: the bench runs nothing else."""
    largest = max(package.modules, key=lambda path: (package.folder / path).stat().st_size)
    return Problem(
        id=package.label,
        statement="",
        folder=str(package.folder),
        solved={largest: (package.folder / largest).read_text(encoding="utf-8", errors="surrogateescape")},
        test_files=package.tests,
        import_paths=package.import_paths,
        requires=package.requires,
    )


def _traced(problem: Problem, bench: Bench) -> tuple[dict[str, tuple[frozenset[Function], float]], frozenset[str]]:
    """Test id → functions that it calls and its seconds of CPU; and the tests that passed."""
    with bench.open(problem) as sandbox:
        env = {"TURNGATE_COVERAGE": _CALLS}
        tests = problem.test_files
        report = run_tests(sandbox, problem, tests, deadline_s=SUITE_S, plugin="coverage_plugin", env=env)
        if report.problem:
            raise TaskRefused(f"its tests do not run here: {report.problem}; {report.output[-300:].strip()!r}")
        try:
            calls = sandbox.read(_CALLS, max_bytes=MAX_CALLS_BYTES)
        except SandboxFileError as error:
            raise TaskRefused(f"which functions its tests call is not known: {error}") from error
    data = json.loads(calls)
    functions = [Function(path=path, name=_PARTS.sub("", name)) for path, name in data["functions"]]
    found = {
        name: (frozenset(functions[number] for number in item["calls"]), float(item["cpu_s"]))
        for name, item in data["tests"].items()
    }
    return found, frozenset(name for name, verdict in report.status.items() if verdict == "passed") & found.keys()


def _passing(problem: Problem, bench: Bench) -> frozenset[str]:
    report = bench.measure(problem, {}, deadline_s=SUITE_S)
    return frozenset(name for name, verdict in report.status.items() if verdict == "passed")
