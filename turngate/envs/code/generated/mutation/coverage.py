"""Which tests of a package can be relied on, and which functions each of them calls: measured once per package."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from turngate.envs.code.generated.mutation.packages import Package
from turngate.envs.code.generated.mutation.suite import TEST_S, Function, NotRun, Suite, run_suite
from turngate.envs.code.grading.forms import function_of
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.problem import Problem
from turngate.errors import TaskRefused

TEST_CPU_S = 0.5
"""A test that needs more of the CPU is left out: every task runs its test files a dozen times."""
FILE_CPU_S = 2.0
"""Of a test file whose tests together need more, the slowest test functions are left out."""
MAX_OPTIONS_BYTES = 60_000
"""The options that leave out tests may be so long; then whole files are left out."""

FAILED, UNSTEADY = "did not pass here", "did not pass every time"
DESELECTED = "left out by the package's own settings"
SLOW = f"took more than {TEST_CPU_S:g} s of CPU or {TEST_S:g} s"
STUCK = "ended the whole run, or could not be interrupted"
TRIMMED = f"the slowest of a file whose tests take more than {FILE_CPU_S:g} s of CPU"
NAMED_LIKE = "named like one that is left out"
UNREACHED = "not reached in the time for the suite"
TOO_MANY = "in a file of which too many tests would have to be left out one by one"
_OUT = (SLOW, STUCK, TRIMMED, UNREACHED)  # they must not run in a task

Say: TypeAlias = Callable[[str], None]
"""Gets a line for a person."""

_BAD_FILTER = re.compile("warning configuration|filter module")  # pytest's words for a warning that it cannot import


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Facts about a package's tests."""

    tests: Mapping[Function, frozenset[str]]
    """The stable tests that call a function."""
    stable: frozenset[str]
    """Tests that passed every time and are fast enough."""
    cpu_s: Mapping[str, float]
    """Of the tests of each file that are run in tasks, fast enough or not stable."""
    n_found: int = 0
    """Tests that pytest found, with those that the package's own settings leave out."""
    left_out: Mapping[str, int]
    """Why tests are not used → how many."""
    options: tuple[str, ...] = ()
    """Of pytest, with which these tests are run."""
    slow: Mapping[str, tuple[str, ...]]
    """Test file → the options that leave out its slow tests."""
    dropped: tuple[str, ...] = ()
    """Settings of the package's configuration that could not be honoured."""


def file_of(test: str) -> str:
    """The test file of a test id."""
    return test.partition("::")[0]


def measure(
    package: Package,
    bench: Bench,
    *,
    repetitions: int = 3,
    limit_s: float = 600.0,
    say: Say = lambda _line: None,
) -> Coverage:
    """Run the suite ``repetitions`` times, at least twice: first as it is, then traced, then the tests that stay.

    All runs together take at most ``limit_s``; tests that are not reached then are left out. Raises TaskRefused if the
    tests of the package do not run here, or none passes every time.
    """
    end_s = time.monotonic() + limit_s
    n_runs = max(2, repetitions)
    say(f"running its tests {n_runs} times, for at most {limit_s:.0f} s")
    problem, first, dropped = _first(package, bench, limit_s / 2)
    why = _reasons(first)
    slow = _deselected(first.found, why)
    stable = {name for name in first.found if name not in why}
    say(f"{len(first.found)} tests, {len(first.passed)} passed, {len(stable)} of these fast enough")
    calls: Mapping[str, frozenset[Function]] = {}
    for number in range(1, n_runs):
        if not stable:
            break
        files = tuple(sorted({file_of(name) for name in stable}))
        options = (*problem.options, *(option for path in files for option in slow.get(path, ())))
        left_s = max(1.0, (end_s - time.monotonic()) / (n_runs - number))
        again = replace(problem, test_files=files, options=options)
        run = run_suite(again, bench, deadline_s=left_s, traced=number == 1)
        if number == 1:
            calls = {name: test.calls for name, test in run.ran.items()}
        for name in stable - run.passed:
            why[name] = UNSTEADY if name in run.ran else UNREACHED if name in run.found else NAMED_LIKE
        stable &= run.passed
        say(f"run {number + 1} of {n_runs}: {len(stable)} passed again")
    counts = Counter(why.values()) + Counter({DESELECTED: first.n_deselected})
    if not stable:
        said = "; ".join(f"{count} {reason}" for reason, count in counts.most_common())
        raise TaskRefused(f"none of its {len(first.found)} tests passes every time and is fast enough ({said})")
    tests: dict[Function, set[str]] = defaultdict(set)
    for name in sorted(stable):
        for function in calls[name]:
            tests[function].add(name)
    return Coverage(
        tests={function: frozenset(names) for function, names in tests.items()},
        stable=frozenset(stable),
        cpu_s=_cost(first, why),
        n_found=len(first.found) + first.n_deselected,
        left_out=dict(counts.most_common()),
        options=problem.options,
        slow=slow,
        dropped=dropped,
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
        options=package.settings.options,
    )


def _first(package: Package, bench: Bench, deadline_s: float) -> tuple[Problem, Suite, tuple[str, ...]]:
    """The first run, and the settings of the package's configuration that it ignored."""
    problem, dropped = _probe(package), package.settings.dropped
    try:
        return problem, run_suite(problem, bench, deadline_s=deadline_s), dropped
    except NotRun as error:
        if not _BAD_FILTER.search(error.output):
            raise
    problem = replace(problem, options=(*problem.options, "-o", "filterwarnings="))
    return problem, run_suite(problem, bench, deadline_s=deadline_s), (*dropped, "filterwarnings")


# --- left-out tests ---------------------------------------------------------------------------------------------------


def _reasons(suite: Suite) -> dict[str, str]:
    """Test → why it is not used."""
    why: dict[str, str] = {}
    cost: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))  # of functions, by file
    for name in suite.found:
        test = suite.ran.get(name)
        if name in suite.stuck:
            why[name] = STUCK
        elif test and (test.slow or test.cpu_s > TEST_CPU_S):
            why[name] = SLOW
        elif test is None:
            why[name] = UNREACHED
        else:
            cost[file_of(name)][function_of(name)] += test.cpu_s
            if not test.passed:
                why[name] = FAILED
    trimmed = set[str]()
    for functions in cost.values():
        total_s = sum(functions.values())
        for function, cpu_s in sorted(functions.items(), key=lambda item: -item[1]):
            if total_s <= FILE_CPU_S:
                break
            total_s -= cpu_s
            trimmed.add(function)
    return why | {
        name: TRIMMED for name in suite.found if function_of(name) in trimmed and why.get(name, FAILED) == FAILED
    }


def _deselected(found: Sequence[str], why: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Test file → the options that leave out its slow tests. A file of which that takes too many is added to ``why``.

    pytest leaves out every id that begins with the one that is named.
    """
    functions: dict[str, list[str]] = defaultdict(list)
    for name in found:
        functions[function_of(name)].append(name)
    options: dict[str, list[str]] = defaultdict(list)
    for function, names in functions.items():
        out = [name for name in names if why.get(name) in _OUT]
        if len(out) == len(names) > 1:
            out = [f"{function}["]
        options[file_of(function)] += [f"--deselect={name}" for name in out]
    size = {path: sum(map(len, named)) for path, named in options.items()}
    for path in sorted(size, key=lambda path: -size[path]):
        if sum(size.values()) <= MAX_OPTIONS_BYTES:
            break
        del size[path]
        why |= {name: TOO_MANY for name in found if file_of(name) == path and name not in why}
    return {path: tuple(options[path]) for path in size if options[path]}


def _cost(suite: Suite, why: Mapping[str, str]) -> dict[str, float]:
    """Test file → seconds of the CPU for its tests that are run."""
    cost: dict[str, float] = defaultdict(float)
    for name, test in suite.ran.items():
        if why.get(name) not in _OUT:
            cost[file_of(name)] += test.cpu_s
    return dict(cost)
