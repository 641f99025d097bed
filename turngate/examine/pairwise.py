"""``Pairwise``: how many of its siblings is each episode better than?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from turngate.examine.base import Desk, Facts
from turngate.examine.judged import DONE, JudgedExaminer, OneCriterion
from turngate.rewards.judge import win_rate_facts
from turngate.types import Evidence, Group


class Pairwise(JudgedExaminer):
    """Win rate: a judge compares every two siblings, and each gets the share of comparisons that it wins.

    ``NAME = mean_{j≠i} won_ij``, 1 for a win, ½ for a tie, 0 for a loss. Every pair is asked about in both orders, N(N
    − 1) calls for N siblings, where a tournament needs 4(N − 1). Source: Pref-GRPO (https://arxiv.org/abs/2508.20751).
    Who has a match without verdict has no rate, so that whatever breaks the judge never lifts anybody; neither has an
    only child.
    """

    type: Literal["pairwise"] = "pairwise"
    name: str = "win_rate"
    """Name of the evidence: the share of siblings that an episode is better than."""
    criterion: OneCriterion = DONE
    """What the judge compares two siblings by: the better one meets this better."""

    async def examine(self, groups: Sequence[Group], desk: Desk) -> Facts:
        """All pairs of each group."""
        return [await self._group(group, desk) for group in groups]

    async def _group(self, group: Group, desk: Desk) -> tuple[tuple[Evidence, ...], ...]:
        judge = desk.judge(self.judge)
        items = self.items(group, desk)
        pairs = list(combinations(range(len(items)), 2))
        judged = await judge.pairwise([(items[i], items[j]) for i, j in pairs], self.criterion.criterion)
        return win_rate_facts(self.name, len(items), dict(zip(pairs, judged.answers, strict=True)), judge.id)
