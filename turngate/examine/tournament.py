"""``Tournament``: who among the siblings is best, in few matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from turngate.examine.base import Desk, Facts
from turngate.examine.judged import DONE, Judged, OneCriterion
from turngate.rewards.judge import tournament_facts
from turngate.types import Evidence, Group


class Tournament(Judged):
    """ArenaRL's seeded single elimination: ``NAME = 1 − rank / (N − 1)`` (https://arxiv.org/abs/2601.06487).

    2(N − 1) matches, each asked in both orders; see ``turngate.rewards.judge.single_elimination``. A match without
    verdict makes the whole tournament missing. A tournament ranks also where everybody is bad: ``essential`` is asked
    first, and where nobody meets it all get 0. Make N a power of two, or an odd one out rises unearned.
    """

    type: Literal["tournament"] = "tournament"
    name: str = "standing"
    criterion: OneCriterion = DONE
    """Which of two is better: the one that meets this better."""
    essential: OneCriterion | None = None
    """What somebody has to meet for there to be a reward at all; one call for each sibling."""
    faithful: bool = False
    """Ties and missing verdicts exactly as in the published code."""

    async def examine(self, groups: Sequence[Group], desk: Desk) -> Facts:
        """One tournament for each group."""
        return [await self._group(group, desk) for group in groups]

    async def _group(self, group: Group, desk: Desk) -> tuple[tuple[Evidence, ...], ...]:
        judge = desk.judge(self.judge)
        standings, _ = await judge.tournament(
            self.items(group, desk),
            self.criterion.criterion,
            essential=self.essential.criterion if self.essential else None,
            faithful=self.faithful,
        )
        return tournament_facts(self.name, standings, judge.id)
