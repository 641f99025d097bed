"""Pairs of runs: tests that keep their expected values inside run real and altered at once.

Code under test runs in the process that tests it, sees the expected values, and can do anything there. So a test that
passes counts only if it fails when its expected value is wrong. Were there a real run and a control run, code could
look for differences between them: the clock, the order, earlier files. There is neither. The alterable tests are split
at random; run A has one part altered and the other real, run B the opposite, and both start together behind one
barrier. A test holds if it passes where it is real and is reported as failed where it is altered. Killed, hung, broken
or missing is not "failed".

Code that guesses which tests are altered has one chance in 2^(n+1) per pair with n test functions: each coin of run A
must be guessed, and run B, the opposite of A, must be guessed apart from it, which at best one time in two goes right
together. With few functions there are more pairs, so that the chance is at most 1/64. The only code left is one that
can verify the expected value itself; then it could have computed it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal, Protocol, TypeAlias

from turngate.envs.code.grading.forms import altered_texts, function_of, heirs, placed
from turngate.envs.code.grading.junit import Report, Status
from turngate.envs.code.problem import Problem, Texts

Control: TypeAlias = Literal["asked", "altered"]
"""Runs for settling; see ``Bench.measure``."""

MAX_PAIRS = 3
_BITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """The tests of a pair."""

    texts: tuple[Texts, Texts]
    altered: tuple[frozenset[str], frozenset[str]]
    """The test functions that are altered in each; every alterable one is in one of the two."""


@dataclass(frozen=True, kw_only=True)
class RunPair:
    """The tests of a pair, and the reports of the two runs."""

    halves: Halves
    reports: tuple[Report, Report]

    @cached_property
    def ids(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """For each run, test id → its id there, for the tests that are altered there: the rows of a table have other
        values then, and by them other ids. In the other run they are the original ones."""
        first, second = (report.status for report in self.reports)
        pairs = ((placed(second, first), self.halves.altered[0]), (placed(first, second), self.halves.altered[1]))
        one, other = ({a: b for a, b in same.items() if function_of(a) in altered} for same, altered in pairs)
        return one, other


class References(Protocol):
    """The methods of a bench that judge a pair."""

    def on_reference(self, problem: Problem, texts: Texts) -> Report: ...


def halves(problem: Problem, texts: Texts, functions: Collection[str], seed: int) -> Halves:
    """Draw which test functions are altered in which run, a coin for each, and how."""
    rng = Random(seed)
    first = frozenset(name for name in sorted(functions) if rng.random() < 0.5)
    second = frozenset(functions) - first
    a, b = (altered_texts(problem, texts, names, rng) for names in (first, second))
    return Halves(texts=(a, b), altered=(heirs(problem, first), heirs(problem, second)))


def n_pairs(n_functions: int, *, asked: bool) -> int:
    """How many pairs a verdict takes, with so many deciding test functions that can be altered."""
    return 1 if asked else min(MAX_PAIRS, -(-_BITS // (n_functions + 1)))


def unasked_result(
    problem: Problem, pair: RunPair, name: str, good: Collection[Status], bench: References
) -> tuple[bool, bool]:
    """Whether a test that is not asked holds in a pair; and whether it passed although it was altered.

    A test that is altered nowhere has to pass in both runs. An alteration that the reference repair passes too is
    ignored, and the test is taken as one that was not altered.
    """
    function = function_of(name)
    holds, forged = True, False
    for number, report in enumerate(pair.reports):
        if function not in pair.halves.altered[number]:
            holds = holds and not report.problem and report.says(name, good)
            continue
        there = pair.ids[number].get(name, name)
        if report.problem or not report.says(there, {"failed"}):
            if bench.on_reference(problem, pair.halves.texts[number]).says(there, {"failed"}):
                holds = False
                forged = forged or (not report.killed and (bool(report.problem) or report.says(there, good)))
            else:
                holds = holds and not report.problem and report.says(there, good)
    return holds, forged
