"""Hindsight: a failed episode is a demonstration of the goal that it did achieve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from turngate.agents.given import given_again
from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.auxiliary.base import (
    ORACLE,
    AuxiliaryContext,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
    row_of,
)
from turngate.trainer.guidance.base import Need
from turngate.trainer.guidance.results import is_solved, unguided
from turngate.types import Metrics, ScoredGroup, Task, Trajectory, derive_seed


class Relabelling(WeightedAuxiliaryPart):
    """Hindsight: imitates failed episodes as if what they achieved had been asked for.

    An environment whose tasks can be asked for otherwise says which task a failed episode has solved
    (``TaskSource.achieved``); nothing that already held at the start counts. The same actions are played once more
    under that task, and imitated if its verifier finds it solved. Episodes with help are left out, and those with
    thoughts, which are about the goal that was asked for. Source: hindsight experience replay,
    https://arxiv.org/abs/1707.01495, as the methods sheet has it for agents (E8), where such rows weigh 0.3.
    """

    type: Literal["relabel"] = "relabel"
    needs: ClassVar[frozenset[Need]] = frozenset({"other_goals"})
    weight: float = Field(0.3, gt=0)
    """Factor of the mean cross-entropy per token, which is added to the loss; the rows' own tokens are averaged, so
    more or longer rows do not weigh more."""
    most: int = Field(2, ge=1)
    """Most failed episodes of one task in a step that are played again."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return RelabelledEpisodes(self, means)


@dataclass(slots=True)
class RelabelledEpisodes(AuxiliarySource):
    """Asks what failed episodes achieved, and plays them again under that goal."""

    part: Relabelling
    means: AuxiliaryContext
    found: int = 0
    with_thoughts: int = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        self.with_thoughts = 0
        pairs = [pair for group in groups for pair in self._achieved(group)[: self.part.most]]
        self.found = len(pairs)
        entries = [
            [PrefixTurns(turns=tuple(map(given_again, one.turns)), guidance=ORACLE, whole=True)] for _, one in pairs
        ]
        seed = derive_seed(self.means.seed, "relabel", step)
        played = await self.means.play([task for task, _ in pairs], entries, seed=seed) if pairs else []
        return AuxiliaryRows(
            rows=[row_of(group.trajectories[0]) for group in played if is_solved(group.scores[0])],
            weight=self.part.weight,
        )

    def metrics(self) -> Metrics:
        """Episodes of this step that achieved something else, and those that were left out for their thoughts."""
        return {"found": float(self.found), "with_thoughts": float(self.with_thoughts)}

    def _achieved(self, group: ScoredGroup) -> list[tuple[Task, Trajectory]]:
        found = []
        for one, score in zip(group.trajectories, group.scores, strict=True):
            if not score.usable or is_solved(score) or not unguided(one) or not one.turns:
                continue
            task = self.means.achieved(group.task, [turn.action for turn in one.turns])
            if task is not None and any(turn.action.thought for turn in one.turns):
                self.with_thoughts += 1
            elif task is not None:
                found.append((task, one))
        return found
