"""A problem becomes a task by measurement: which tests tell the bug from the repair, in every repetition."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from turngate.envs.code.grading.forms import asked_form, function_of, judged, placed
from turngate.envs.code.grading.grade import measure
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import FIXED, KEPT, Report, Status, fallen
from turngate.envs.code.grading.pair import Control
from turngate.envs.code.grading.protect import Sorted
from turngate.envs.code.problem import Problem, Texts
from turngate.errors import ConfigError, TaskRefused


class Measures(Protocol):
    """The methods of a bench that ``settle`` uses."""

    def measure(self, problem: Problem, changes: Texts, *, control: Control | None = None) -> Report: ...


def settle(problem: Problem, bench: Measures, *, repetitions: int = 3) -> Problem:
    """The problem with ``fail_to_pass``, ``pass_to_pass``, ``asked`` and ``sensitive`` as measured.

    Bug and reference repair are measured ``repetitions`` times each; a test that does not report the same each time is
    flaky and left out. Tests that can be asked run so once on each. Raises TaskRefused if the reference does not pass,
    no test tells the two apart, or none of those that do can tell a cheat.
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
    settled = replace(problem, fail_to_pass=fixed, pass_to_pass=kept)
    settled = replace(settled, asked=_asked(settled, bench, list(repaired[0].status)))
    sensitive = tuple(name for name in fixed if name in settled.asked)
    if len(sensitive) < len(fixed):
        altered = bench.measure(settled, problem.solved, control="altered")
        same, fell = placed(repaired[0].status, altered.status), fallen(altered)
        sensitive = tuple(name for name in fixed if name in settled.asked or same.get(name, name) in fell)
    if not sensitive:
        raise TaskRefused("none of its deciding tests can tell a cheat: what they expect is nowhere written as data")
    return replace(settled, sensitive=sensitive)


def check_paid(problem: Problem, bench: Bench) -> None:
    """Grade the reference repair of a settled problem as one of an agent. Raises TaskRefused if it is not paid."""
    verdict = measure(bench, problem, Sorted(repair=problem.solved))
    if not verdict.passes:
        why = verdict.report.problem or f"{verdict.fixed:.0%} of its deciding tests hold, {verdict.broken:.0%} break"
        raise TaskRefused(f"its reference repair is not paid: {why}")


def _asked(problem: Problem, bench: Measures, names: list[str]) -> dict[str, str]:
    """Test id → its id where it runs, for the tests of each function that can be asked and then tells the same.

    ``names``: the tests of the reference repair, in their order; those of one function keep it, whatever their ids.
    """
    form = asked_form(problem)
    if not form.sites:
        return {}
    repaired = bench.measure(problem, problem.solved, control="asked")
    found = bench.measure(problem, {}, control="asked")
    same = placed(names, repaired.status)
    asked = {name: other for name, other in same.items() if function_of(name) in form.sites}
    foreign = {
        site for test, sites in repaired.answers.items() if test not in asked.values() for site in sites
    }  # of a test that inherits from one that is asked, for instance
    good = {function for function, sites in form.sites.items() if foreign.isdisjoint(site.number for site in sites)}
    trial = replace(problem, asked=asked)
    for report, fixed in ((judged(trial, form, repaired), True), (judged(trial, form, found), False)):
        said = report.verdicts(problem.fail_to_pass, problem.pass_to_pass)
        wrong = [name for name in said if said[name] != (fixed or name in problem.pass_to_pass)]
        good -= {function_of(name) for name in wrong}
    good = {function for function in good if any(function_of(name) == function for name in asked)}
    good = set(asked_form(problem, good).sites)  # those left without what another one shared with them
    return {name: other for name, other in asked.items() if function_of(name) in good}


def steady(reports: list[Report]) -> dict[str, Status]:
    """Test id → its status in every report; tests on which reports differ are left out."""
    first, *others = [report.status for report in reports]
    return {name: verdict for name, verdict in first.items() if all(other.get(name) == verdict for other in others)}


def flaky(reports: list[Report]) -> frozenset[str]:
    """Tests on which reports of one tree differ."""
    names = frozenset[str]().union(*(report.status for report in reports))
    return names - steady(reports).keys()
