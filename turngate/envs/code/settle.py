"""A problem becomes a task by being measured: which tests tell the bug from the repair, again and again the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from turngate.envs.code.grading.control import Control
from turngate.envs.code.grading.report import FIXED, KEPT, Report, Status, fallen
from turngate.envs.code.problem import Problem, Texts
from turngate.errors import ConfigError, TaskRefused


class Measures(Protocol):
    """What settling needs of a bench."""

    def measure(self, problem: Problem, changes: Texts, *, control: Control | None = None) -> Report:
        """See ``Bench.measure``."""
        ...


def settle(problem: Problem, bench: Measures, *, repetitions: int = 3) -> Problem:
    """The problem with ``fail_to_pass``, ``pass_to_pass`` and ``sensitive`` as measured.

    Bug and reference repair are measured ``repetitions`` times each; a test that does not report the same each time is
    flaky and left out. Raises TaskRefused if the reference does not pass, no test tells the two apart, or none of those
    that do can tell a cheat.
    """
    if repetitions < 1:
        raise ConfigError(f"repetitions is {repetitions}; it must be at least 1")
    found = [bench.measure(problem, {}) for _ in range(repetitions)]
    repaired = [bench.measure(problem, problem.solved) for _ in range(repetitions)]
    for what, reports in (("its reference repair", repaired), ("its bug", found)):
        if broken := next((report for report in reports if report.problem), None):
            raise TaskRefused(f"{what} cannot be measured: {broken.problem}; {broken.output[-300:]!r}")
    bug, solved, unsteady = steady(found), steady(repaired), flaky(found) | flaky(repaired)
    names = sorted(solved.keys() - unsteady)
    fixed = tuple(name for name in names if solved[name] in FIXED and bug.get(name) not in KEPT)
    kept = tuple(name for name in names if solved[name] in KEPT and bug.get(name) in KEPT)
    if not fixed:
        raise TaskRefused("no test fails with the bug and passes with the reference repair, every time")
    spoilt = fallen(bench.measure(problem, problem.solved, control="spoilt"))
    sensitive = tuple(name for name in fixed if name in spoilt)
    if not sensitive:
        raise TaskRefused("none of its deciding tests fails when it is spoilt, so none could tell a cheat")
    return replace(problem, fail_to_pass=fixed, pass_to_pass=kept, sensitive=sensitive)


def steady(reports: list[Report]) -> dict[str, Status]:
    """Test id → what every report says of it; tests on which they differ are left out."""
    first, *others = [report.status for report in reports]
    return {name: verdict for name, verdict in first.items() if all(other.get(name) == verdict for other in others)}


def flaky(reports: list[Report]) -> frozenset[str]:
    """Tests on which reports of one tree differ."""
    names = frozenset[str]().union(*(report.status for report in reports))
    return names - steady(reports).keys()
