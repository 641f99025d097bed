"""From a package to repair problems: its functions are broken on purpose, and its own tests decide.

    package = open_package(folder, target)
    harvested = harvest(package, bench, n=40)
    harvested.problems                            # settled: reference passes, bug fails, three times each

A candidate is kept if its bug makes at least one test fail and at most half of those that call the broken functions: a
bug that breaks everything is found by reading the first traceback. Of several bugs each has to be seen by a test.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from turngate.envs.code.engine.calibrate import settle
from turngate.envs.code.generated.mutation.coverage import Coverage, Say, file_of, measure
from turngate.envs.code.generated.mutation.holdback import hold_back
from turngate.envs.code.generated.mutation.measured import Measured, OutOfTime, Pristine, Timed
from turngate.envs.code.generated.mutation.mutate import Mutation, apply, mutations
from turngate.envs.code.generated.mutation.packages import Package
from turngate.envs.code.generated.mutation.suite import Function
from turngate.envs.code.grading.forms import alterable_functions, asked_form, function_of
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import FIXED, Report
from turngate.envs.code.problem import Problem
from turngate.errors import ConfigError, TaskRefused
from turngate.types import JSON, derive_seed

_Option = TypeVar("_Option")

BUGS = {1: 0.7, 2: 0.2, 3: 0.1}
"""How many bugs a problem has → share of the candidates."""
ROUND = 8
"""Candidates that are drawn before the results of any of them count; the same for every number of workers."""
CANDIDATES_PER_TASK = 8
"""After so many candidates for each wanted problem, a package is exhausted."""
LIMIT_S = 600.0
"""One package may take so long, unless another limit is given."""
PROBLEM_CPU_S = 2.0
"""The test files of a problem may need so much of the CPU together; those that say least about it are left out."""
SAY_S = 30.0
"""How often candidates are counted aloud."""

STATEMENT = """\
The work folder holds the source of the Python package {name} {version}. Some of its tests used to pass and fail now: \
the code was broken by a recent change.

Find out what is wrong and repair the package. You can run the tests with run_tests. The tests are as they ought to \
be: leave them, and the configuration of the test runner, as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A change to one function of a package."""

    path: str
    mutation: Mutation

    @property
    def function(self) -> Function:
        """Its changes."""
        return Function(path=self.path, name=self.mutation.function)


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """The result of a package."""

    package: Package
    problems: tuple[Problem, ...]
    n_candidates: int
    refused: Mapping[str, int]
    """Why candidates were refused → how many."""
    n_functions: int
    """Functions that could be broken."""
    n_tests: int
    """Tests that pass every time and are fast enough."""
    n_found: int
    left_out: Mapping[str, int]
    """Why tests are not used → how many."""
    dropped: tuple[str, ...]
    """Settings of the package's own pytest configuration that could not be honoured."""
    stopped: bool
    """Whether it ended because its time was up, with fewer problems than could have been made."""
    limit_s: float
    seed: int
    repetitions: int
    time_s: float


def harvest(
    package: Package,
    bench: Bench,
    *,
    n: int,
    seed: int = 0,
    repetitions: int = 3,
    workers: int = 1,
    limit_s: float = LIMIT_S,
    found: Callable[[int], None] = lambda _n: None,
    say: Say = lambda _line: None,
) -> Harvest:
    """Up to ``n`` problems of a package, as many as ``limit_s`` allows.

    They are the same for the same arguments, however many ``workers`` measure, unless time runs out or a test is about
    as slow as tests may be. ``found`` is told from time to time how many there are, ``say`` gets a line per phase.
    Raises TaskRefused if the package's tests do not run or do not call any function that can be broken.
    """
    if n < 1 or workers < 1 or not limit_s > 0:
        raise ConfigError(
            f"n is {n}, workers is {workers} and limit_s is {limit_s}; n and workers must be at least 1, "
            "limit_s above 0"
        )
    start_s = time.monotonic()
    coverage = measure(package, bench, repetitions=repetitions, limit_s=limit_s / 2, say=say)
    spots = spots_of(package, coverage)
    if not spots:
        raise TaskRefused("no function of its own is called by two of its tests")
    n_functions = len({spot.function for spot in spots})
    say(f"{len(spots)} changes to {n_functions} functions; up to {CANDIDATES_PER_TASK * n} candidates are drawn")
    maker = _Maker(package, coverage, Timed(bench, start_s + limit_s), seed, repetitions, Pristine())
    clock = _Clock(start_s, limit_s, say)
    problems: dict[str, Problem] = {}  # by patch: two operators may make the same bug
    refused, used, number, stopped = Counter[str](), Counter[object](), 0, False
    with ThreadPoolExecutor(workers) as pool:
        while spots and len(problems) < n and number < CANDIDATES_PER_TASK * n and not stopped:
            found(len(problems))
            drawn = _round(spots, used, maker, number)
            number += len(drawn)
            for chosen, made in zip(drawn.values(), pool.map(maker.make, drawn, drawn.values()), strict=True):
                if made is None:
                    number, stopped = number - 1, True
                elif isinstance(made, str):
                    refused[made] += 1
                elif made.patch in problems:
                    refused["the same bug as in another task"] += 1
                elif len(problems) < n:
                    problems[made.patch] = made
                    used.update(key for spot in chosen for key in (spot.mutation.operator, spot.function))
                clock.say(f"{len(problems) + refused.total()} candidates, {len(problems)} of {n} tasks")
    return Harvest(
        package=package,
        problems=tuple(problems.values()),
        n_candidates=number,
        refused=dict(refused.most_common()),
        n_functions=n_functions,
        n_tests=len(coverage.stable),
        n_found=coverage.n_found,
        left_out=coverage.left_out,
        dropped=coverage.dropped,
        stopped=stopped and len(problems) < n,
        limit_s=limit_s,
        seed=seed,
        repetitions=repetitions,
        time_s=time.monotonic() - start_s,
    )


class _Clock:
    """Says how far it is, every ``SAY_S`` at most."""

    def __init__(self, start_s: float, limit_s: float, say: Say) -> None:
        self._start_s, self._limit_s, self._say, self._said_s = start_s, limit_s, say, start_s

    def say(self, line: str) -> None:
        """Say a line, with the time, unless one was said just now."""
        now_s = time.monotonic()
        if now_s - self._said_s >= SAY_S:
            self._said_s = now_s
            self._say(f"{line}, {now_s - self._start_s:.0f} s of {self._limit_s:.0f} s")


# --- which bugs -------------------------------------------------------------------------------------------------------


def spots_of(package: Package, coverage: Coverage) -> list[Spot]:
    """Every change to a function that at least two stable tests call. Modules that are no UTF-8 Python give none."""
    spots = []
    for path in package.modules:
        try:
            found = mutations(package.read(path))
        except (UnicodeDecodeError, ConfigError):
            continue
        spots += [Spot(path=path, mutation=mutation) for mutation in found]
    return [spot for spot in spots if len(coverage.tests.get(spot.function, ())) >= 2]


def draw(spots: Sequence[Spot], used: Mapping[object, int], rng: Random) -> tuple[Spot, ...]:
    """One to three changes (see ``BUGS``) to different functions: first an operator, then a function, then a place.

    An operator or function that problems have ``k`` times already is drawn with weight 1 / (1 + k)², so that none
    dominates.
    """
    (count,) = rng.choices(list(BUGS), list(BUGS.values()))
    chosen: list[Spot] = []
    for _ in range(count):
        taken = {spot.function for spot in chosen}
        left = [spot for spot in spots if spot.function not in taken]
        if not left:
            break
        operator = _pick(sorted({spot.mutation.operator for spot in left}), used, rng)
        left = [spot for spot in left if spot.mutation.operator == operator]
        function = _pick(sorted({spot.function for spot in left}, key=lambda item: (item.path, item.name)), used, rng)
        chosen.append(rng.choice([spot for spot in left if spot.function == function]))
    return tuple(chosen)


def _round(spots: list[Spot], used: Mapping[object, int], maker: _Maker, number: int) -> dict[int, tuple[Spot, ...]]:
    """The next candidates, from ``number`` on; drawn ones are removed from ``spots``."""
    drawn: dict[int, tuple[Spot, ...]] = {}
    while spots and len(drawn) < ROUND:
        drawn[number] = draw(spots, used, maker.rng("draw", number))
        spots[:] = [spot for spot in spots if spot not in drawn[number]]
        number += 1
    return drawn


def _pick(options: Sequence[_Option], used: Mapping[object, int], rng: Random) -> _Option:
    return rng.choices(options, [(1 + used.get(option, 0)) ** -2 for option in options])[0]


# --- from bugs to a problem -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes and measures the candidates of one package; used by several threads."""

    package: Package
    coverage: Coverage
    bench: Timed
    seed: int
    repetitions: int
    pristine: Pristine

    def rng(self, what: str, number: int) -> Random:
        """The chance of one candidate."""
        return Random(derive_seed(what, self.package.name, self.package.version, self.seed, number))

    def make(self, number: int, chosen: Sequence[Spot]) -> Problem | str | None:
        """The settled problem, or why there is none; None if there was no time to find out."""
        try:
            return self._make(number, chosen)
        except TaskRefused as error:
            return str(error).partition(":")[0]
        except OutOfTime:
            return None

    def _make(self, number: int, chosen: Sequence[Spot]) -> Problem:
        if len(chosen) > 1:
            for single in (self._problem(number, (spot,)) for spot in chosen):
                if not self._failing(single, self._screen(single)):
                    raise TaskRefused("one of several bugs is seen by no test")
        problem = self._problem(number, chosen)
        report = self._screen(problem)
        failing, covering = self._failing(problem, report), self._covering(chosen, problem.test_files)
        if not failing:
            raise TaskRefused("no test sees the bug")
        if 2 * len(failing) > len(covering):
            raise TaskRefused("more than half of the tests that call the function fail")
        texts = {path: text for path, text in problem.hidden.items() if text is not None}
        shortened, held = hold_back(failing, texts, self.rng("hold back", number))
        problem = replace(problem, files={**problem.files, **shortened})
        telling = asked_form(problem).sites.keys() | alterable_functions(problem)
        if not any(function_of(test) in telling for test in failing):  # settling would find out after all its runs
            raise TaskRefused("none of its deciding tests can tell a cheat")
        measured = Measured(self.bench, self.pristine, report)
        settled = self._only_stable(settle(problem, measured, repetitions=self.repetitions))
        if not set(settled.fail_to_pass) <= failing or 2 * len(settled.fail_to_pass) > len(covering):
            raise TaskRefused("other tests fail when it is measured again")
        n_held_back = sum(function_of(test) in held for test in settled.fail_to_pass)
        if n_held_back == len(settled.fail_to_pass):
            raise TaskRefused("every deciding test would be held back")
        self.bench.check_paid(settled)
        about = {"n_covering": len(covering), "n_held_back": n_held_back, "candidate": number}
        return replace(settled, about={**self._about(settled, chosen), **about})

    def _problem(self, number: int, chosen: Sequence[Spot]) -> Problem:
        """Not yet measured. Raises TaskRefused if the changes do not go together."""
        package = self.package
        solved = {path: package.read(path) for path in sorted({spot.path for spot in chosen})}
        try:
            files = {
                path: apply(text, [spot.mutation for spot in chosen if spot.path == path])
                for path, text in solved.items()
            }
        except ConfigError as error:
            raise TaskRefused(f"the changes cannot be made: {error}") from error
        tests = self._files(chosen)
        try:
            hidden = {path: package.read(path) for path in tests}
        except UnicodeDecodeError as error:
            raise TaskRefused("a test file is no UTF-8") from error
        return Problem(
            id=f"{package.label}/{self.seed}-{number}",
            statement=STATEMENT.format(name=package.name, version=package.version),
            folder=str(package.folder),
            files=files,
            solved=solved,
            hidden=hidden,
            test_files=tests,
            import_paths=package.import_paths,
            requires=package.requires,
            options=(*self.coverage.options, *(name for path in tests for name in self.coverage.slow.get(path, ()))),
        )

    def _files(self, chosen: Sequence[Spot]) -> tuple[str, ...]:
        """The test files of a problem: those with the most tests that call the broken function, as far as there is
        time."""
        counts = Counter(file_of(test) for spot in chosen for test in self.coverage.tests[spot.function])
        kept, left_s = list[str](), PROBLEM_CPU_S
        for path, _count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            left_s -= self.coverage.cpu_s[path]
            if left_s < 0 and kept:
                break
            kept.append(path)
        return tuple(sorted(kept))

    def _covering(self, chosen: Sequence[Spot], files: Collection[str]) -> frozenset[str]:
        tests = frozenset().union(*(self.coverage.tests[spot.function] for spot in chosen))
        return frozenset(test for test in tests if file_of(test) in files)

    def _screen(self, problem: Problem) -> Report:
        """The first measurement of a bug. Raises TaskRefused if the run does not come to its end."""
        limit_s = 12.0 + 6.0 * sum(self.coverage.cpu_s[path] for path in problem.test_files)
        report = self.bench.measure(problem, {}, deadline_s=limit_s)
        if report.problem:
            raise TaskRefused("the tests do not come to their end")
        return report

    def _failing(self, problem: Problem, report: Report) -> set[str]:
        """The stable tests that fail."""
        tests = {test for test in self.coverage.stable if file_of(test) in problem.test_files}
        return {test for test in tests if report.status.get(test) not in FIXED}

    def _only_stable(self, problem: Problem) -> Problem:
        """Without tests that do not pass every time on the package as it was."""
        fixed, kept, sensitive = (
            tuple(test for test in tests if test in self.coverage.stable)
            for tests in (problem.fail_to_pass, problem.pass_to_pass, problem.sensitive)
        )
        if not sensitive:
            raise TaskRefused("none of its deciding tests is stable")
        return replace(problem, fail_to_pass=fixed, pass_to_pass=kept, sensitive=sensitive)

    def _about(self, problem: Problem, chosen: Sequence[Spot]) -> dict[str, JSON]:
        lines = [line[0] for line in problem.patch.splitlines() if re.match(r"[+-](?!\+\+ |-- )", line)]
        measured = {*problem.fail_to_pass, *problem.pass_to_pass}
        known = {test for test in self.coverage.stable if file_of(test) in problem.test_files}
        return {
            "package": self.package.name,
            "version": self.package.version,
            "operators": [spot.mutation.operator for spot in chosen],
            "functions": [f"{spot.path}:{spot.mutation.function}" for spot in chosen],
            "n_failing": len(problem.fail_to_pass),
            "n_unsteady": len(known - measured),
            "lines_changed": max(lines.count("+"), lines.count("-")),
            "seed": self.seed,
            "repetitions": self.repetitions,
        }
