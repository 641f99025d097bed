"""Measurements that need not be made again: problems of one package are all repaired to the same tree.

Results of runs are shared, and each counts once per problem: a verdict that needs three runs comes from three, and
those of the repaired tree are the same three for all problems with the same test files.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Hashable
from threading import Lock

from turngate.envs.code.engine.calibrate import check_paid
from turngate.envs.code.grading.forms import alterable_functions
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import Report
from turngate.envs.code.grading.pair import Control
from turngate.envs.code.problem import Problem, Texts


class OutOfTime(Exception):
    """There is no time left to measure anything more."""


class Timed:
    """A bench that measures until a moment of the monotonic clock, and never past it."""

    def __init__(self, bench: Bench, end_s: float) -> None:
        self._bench, self._end_s = bench, end_s

    def measure(
        self, problem: Problem, changes: Texts, *, control: Control | None = None, deadline_s: float | None = None
    ) -> Report:
        """See ``Bench.measure``. Raises OutOfTime, also in the place of a report that may owe to the lack of time."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise OutOfTime
        limit_s = min(self._bench.deadline_s, self._bench.deadline_s if deadline_s is None else deadline_s)
        report = self._bench.measure(problem, changes, control=control, deadline_s=min(limit_s, left_s))
        if report.killed and time.monotonic() >= self._end_s:
            raise OutOfTime
        return report

    def check_paid(self, problem: Problem) -> None:
        """See ``settle.check_paid``. Raises OutOfTime."""
        if time.monotonic() >= self._end_s:
            raise OutOfTime
        check_paid(problem, self._bench)


class Pristine:
    """Runs on the package as it was, by test files; many threads may share one."""

    def __init__(self) -> None:
        self._reports = defaultdict[Hashable, list[Report]](list)
        self._locks = defaultdict[Hashable, Lock](Lock)
        self._lock = Lock()

    def report(self, bench: Timed, problem: Problem, number: int, *, control: Control | None) -> Report:
        """Run number ``number`` (from 0) of the tests of a problem on its repaired tree."""
        altered = alterable_functions(problem) if control == "altered" else None  # depends on what the agent is shown
        key = (problem.test_files, control, altered)
        with self._lock:
            lock, reports = self._locks[key], self._reports[key]
        with lock:
            while len(reports) <= number:
                reports.append(bench.measure(problem, problem.solved, control=control))
            return reports[number]


class Measured:
    """A bench for ``settle`` and one problem: the first run of its bug was made before, the repaired tree is shared."""

    def __init__(self, bench: Timed, pristine: Pristine, first: Report) -> None:
        """``first``: of the tree as the agent finds it."""
        self._bench, self._pristine, self._first = bench, pristine, first
        self._counts = Counter[tuple[bool, Control | None]]()

    def measure(self, problem: Problem, changes: Texts, *, control: Control | None = None) -> Report:
        repaired = changes == problem.solved
        number = self._counts[repaired, control]
        self._counts[repaired, control] += 1
        if repaired:
            return self._pristine.report(self._bench, problem, number, control=control)
        if number == 0 and control is None:
            return self._first
        return self._bench.measure(problem, changes, control=control)
