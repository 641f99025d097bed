"""``Pairwise``: the share of its siblings that each episode is better than."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import DONE, JudgedExaminer, OneCriterion
from turngate.judges.texts import win_rate_facts
from turngate.types import Evidence, Group


class Pairwise(JudgedExaminer):
    """Win rate: a judge compares every two siblings, and each gets the share of comparisons that it wins.

    ``NAME = mean_{j≠i} won_ij``, 1 for a win, ½ for a tie, 0 for a loss. Every pair is asked about in both orders, N(N
    − 1) calls for N siblings, where a tournament needs 4(N − 1). Source: Pref-GRPO (https://arxiv.org/abs/2508.20751).
    An episode that lacks the verdict of one comparison has no rate, so that breaking the judge never pays; neither has
    one without siblings.
    """

    type: Literal["pairwise"] = "pairwise"
    name: str = "win_rate"
    """Name of the evidence: the share of siblings that an episode is better than."""
    criterion: OneCriterion = DONE
    """Criterion of the comparison: the better of two siblings is the one that meets it better."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """All pairs of each group."""
        return [await self._group(group, context) for group in groups]

    async def _group(self, group: Group, context: ExamineContext) -> tuple[tuple[Evidence, ...], ...]:
        judge = context.judge(self.judge)
        items = self.items(group, context)
        pairs = list(combinations(range(len(items)), 2))
        judged = await judge.pairwise([(items[i], items[j]) for i, j in pairs], self.criterion.criterion)
        return win_rate_facts(self.name, len(items), dict(zip(pairs, judged.answers, strict=True)), judge.id)
