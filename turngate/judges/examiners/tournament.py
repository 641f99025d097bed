"""``Tournament``: ranks siblings by few comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import DONE, JudgedExaminer, OneCriterion
from turngate.judges.texts import tournament_facts
from turngate.types import Evidence, Group


class Tournament(JudgedExaminer):
    """ArenaRL: a judge compares siblings two at a time in a knock-out tournament, which ranks them all.

    ``NAME = 1 − rank / (N − 1)``, N siblings, rank 0 is the winner, equal ones share the mean of their ranks
    (https://arxiv.org/abs/2601.06487). 2(N − 1) matches, each asked in both orders;
    ``turngate.judges.texts.single_elimination`` has the details. If one match has no verdict, the whole tournament is
    missing. A tournament also ranks siblings that are all bad; with ``essential``, that criterion is asked about first,
    and if no sibling meets it all get 0. Make N a power of two, because otherwise some siblings advance without a
    match.

    Left out of the paper: its rubric of several levels, by which the judge scores the way as well as the answer (here
    one criterion decides a match), and its other brackets, of which examiner "pairwise" is the round robin.
    """

    type: Literal["tournament"] = "tournament"
    name: str = "standing"
    """Name of the evidence: the standing, 1 for the winner and 0 for the last."""
    criterion: OneCriterion = DONE
    """Criterion of a match: the better of two siblings is the one that meets it better."""
    essential: OneCriterion | None = None
    """Criterion that at least one sibling must meet, or all get 0; costs one more call per sibling. Leave it out to
    rank in any case."""
    faithful: bool = False
    """Whether ties, passes and missing verdicts are treated exactly as in the published code, to repeat its results: on
    equal points the order of the siblings decides."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One tournament for each group."""
        return [await self._group(group, context) for group in groups]

    async def _group(self, group: Group, context: ExamineContext) -> tuple[tuple[Evidence, ...], ...]:
        judge = context.judge(self.judge)
        standings, _ = await judge.tournament(
            self.items(group, context),
            self.criterion.criterion,
            essential=self.essential.criterion if self.essential else None,
            faithful=self.faithful,
        )
        return tournament_facts(self.name, standings, judge.id)
