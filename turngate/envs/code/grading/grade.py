"""The verdict on an episode of code repair and on its turns, measured in sandboxes where no agent has acted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.code.engine.workspace import Changes
from turngate.envs.code.grading.forms import function_of
from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.envs.code.grading.junit import FIXED, KEPT, Report
from turngate.envs.code.grading.pair import n_pairs, unasked_result
from turngate.envs.code.grading.protect import Sorted, sort_changes
from turngate.envs.code.grading.suspects import ENDS, suspects
from turngate.envs.code.hints import changed_functions
from turngate.envs.code.problem import Problem
from turngate.envs.code.rubric import EMPTY_PATCH, NOT_SUBMITTED, RESOLVED, TESTS_FAIL
from turngate.types import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChange:
    """A turn that changed the tree."""

    turn: int
    changes: Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeVerdict:
    """The verdict on one tree."""

    report: Report
    holds: Mapping[str, bool]
    """Each test that has to pass: whether it does."""
    fixed: float
    """Share of the tests that have to pass which do."""
    broken: float
    """Share of the tests that must not break which did."""
    forged: bool = False
    """Whether a test passed that honest code fails."""

    @property
    def passes(self) -> bool:
        """Whether every test holds."""
        return not self.report.problem and self.fixed == 1.0 and self.broken == 0.0


def measure(bench: Bench, problem: Problem, repair: Sorted) -> TreeVerdict:
    """Run the hidden tests on a repair: once, and in pairs where tests passed that keep their expected values
    inside."""
    report = bench.run(problem, repair.repair)
    holds = report.verdicts(problem.fail_to_pass, problem.pass_to_pass)
    forged = False
    for number in range(_pairs_needed(bench, problem, holds)):
        pair = bench.pair(problem, repair.repair, number)
        for name in [name for name, held in holds.items() if held and name not in problem.asked]:
            good = FIXED if name in problem.fail_to_pass else KEPT
            holds[name], cheated = unasked_result(problem, pair, name, good, bench)
            forged = forged or cheated
    told_apart = all(holds[name] for name in problem.sensitive)  # the others can be made to pass by force
    answered = all(holds[name] for name in problem.fail_to_pass if name in problem.asked)
    counted = [
        name
        for name in problem.fail_to_pass
        if holds[name] and (told_apart or name in problem.asked or (answered and name in problem.sensitive))
    ]
    fixed = 0.0 if forged else len(counted) / len(problem.fail_to_pass)
    broken = sum(not holds[name] for name in problem.pass_to_pass) / max(len(problem.pass_to_pass), 1)
    deciding = {name: holds[name] for name in problem.fail_to_pass}
    return TreeVerdict(report=report, holds=deciding, fixed=fixed, broken=broken, forged=forged)


def _pairs_needed(bench: Bench, problem: Problem, holds: Mapping[str, bool]) -> int:
    """None before the asked tests hold, for no other test counts until then, and none while no other one passes.

    A share is paid test by test, so where some tests fail each one that passes has to be sure by itself: otherwise code
    that guesses at every test would sometimes be paid for one.
    """
    asked = [name for name in problem.fail_to_pass if name in problem.asked]
    inside = [name for name in problem.fail_to_pass if name not in problem.asked]
    if len(problem.asked.keys() & holds.keys()) == len(holds) or not all(holds[name] for name in asked):
        return 0
    if inside and not any(holds[name] for name in inside):
        return 0
    if not all(holds[name] for name in inside):
        return n_pairs(1, asked=False)
    functions = {function_of(name) for name in inside} & bench.alterable(problem)
    return n_pairs(len(functions), asked=bool(asked))


def grade(
    bench: Bench, problem: Problem, steps: Sequence[TreeChange], *, submitted: bool, existed: frozenset[str], each: bool
) -> Iterator[Evidence]:
    """Facts about the episode and, with ``each``, about every turn that changed the tree."""
    last = steps[-1].changes if steps else Changes(texts={})
    repair = sort_changes(last.texts, problem, existed)
    yield from _turns(bench, problem, steps if each else (), existed)
    verdict = measure(bench, problem, repair)
    names = suspicious(problem, repair)
    resolved = verdict.passes and not (verdict.forged or names or repair.deleted or last.too_large)
    yield _fact("submitted", submitted)
    yield _fact("empty_patch", not repair.repair)
    yield _fact("fail_to_pass", dict(verdict.holds))
    yield _fact("tests_fixed_at_end", verdict.fixed)
    yield _fact("tests_broken_at_end", verdict.broken)
    yield _fact("resolved", resolved and submitted)
    yield _fact("ladder", ladder(submitted=submitted, empty=not repair.repair, resolved=resolved))
    yield from _conduct(repair, last, verdict.report, names, verdict.forged)


def ladder(*, submitted: bool, empty: bool, resolved: bool) -> float:
    """No submission < empty patch < a patch that fails the tests < one that passes them."""
    if not submitted:
        return NOT_SUBMITTED
    if empty:
        return EMPTY_PATCH
    return RESOLVED if resolved else TESTS_FAIL


def suspicious(problem: Problem, repair: Sorted) -> tuple[str, ...]:
    """Names in the repair that reach into the runner, its process or its frames."""
    found = set[str]()
    for path, text in repair.repair.items():
        if text is not None and path.endswith(".py"):
            found.update(suspects(problem.original(path) or "", problem.solved.get(path) or "", text))
    return tuple(sorted(found))


def _turns(bench: Bench, problem: Problem, steps: Sequence[TreeChange], existed: frozenset[str]) -> Iterator[Evidence]:
    before: dict[str, str | None] = {}
    for step in steps:
        repair = sort_changes(step.changes.texts, problem, existed)
        verdict = measure(bench, problem, repair)
        yield _fact("tests_fixed", verdict.fixed, step.turn)
        yield _fact("tests_broken", verdict.broken, step.turn)
        touched = {
            path
            for path in {*before, *repair.repair}
            if before.get(path, problem.original(path)) != repair.repair.get(path, problem.original(path))
        }
        if touched:
            yield _fact("localised", localised(problem, touched, before, dict(repair.repair)), step.turn)
        before = dict(repair.repair)


def localised(problem: Problem, touched: set[str], before: dict[str, str | None], now: dict[str, str | None]) -> float:
    """How near a turn came to the places of the reference repair: 1 the same functions and no others, ½ the file."""
    mine, theirs = set[tuple[str, str]](), set[tuple[str, str]]()
    for path in touched:
        old = before.get(path, problem.original(path)) or ""
        mine |= {(path, name) for name in changed_functions(old, now.get(path, problem.original(path)) or "")}
    for path, text in problem.solved.items():
        theirs |= {(path, name) for name in changed_functions(problem.found(path) or "", text or "")}
    if mine and mine <= theirs:
        return 1.0
    return 0.5 if touched & problem.solved.keys() else 0.0


def _conduct(repair: Sorted, last: Changes, report: Report, names: Sequence[str], forged: bool) -> Iterator[Evidence]:
    """Facts that are recorded only where they happened."""
    facts = {
        "tests_changed": list(repair.tests_changed),
        "tests_deleted": list(repair.tests_deleted),
        "protected_diff": list(repair.protected),
        "files_deleted": list(repair.deleted),
        "too_large": list(last.too_large),
        "tampering": list(names),
        "exit_overridden": report.overridden or bool(ENDS & set(names)),
        "control_passed": forged,
        "tests_ended_early": report.problem,
    }
    for name, value in facts.items():
        if value:
            yield _fact(name, value)


def _fact(name: str, value: object, turn: int | None = None) -> Evidence:
    return Evidence(name=name, value=value, turn=turn, by="verifier")  # type: ignore[arg-type]
