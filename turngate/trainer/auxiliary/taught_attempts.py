"""RISE with a teacher: after an attempt of the policy, a teacher's better attempt is imitated, weighted by reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.chat import Frames
from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.auxiliary.base import (
    ORACLE,
    AuxiliaryContext,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    WeightedAuxiliaryPart,
    row_of,
)
from turngate.trainer.branching.second_attempts import AGAIN
from turngate.trainer.credit.imitation_weights import Tau, reward_softmax
from turngate.trainer.guidance.base import Need
from turngate.trainer.guidance.results import unguided
from turngate.types import Metrics, ScoredGroup, Task, Trajectory, derive_seed


class RiseTeacher(WeightedAuxiliaryPart):
    """RISE with a teacher's targets: the oracle's attempt, imitated in the state that the policy's attempt led to.

    The state is the whole earlier attempt, which is not trained, then the note and the first observation, as branching
    "rise" shows them. Of each task, attempts without help that were paid less than the oracle's are taken, those paid
    least first. With R* what the oracle's attempt was paid and R what the task's n episodes of the step were, a row has
    the weight ``(n + 1)·exp(R*/tau) / (exp(R*/tau) + Σ exp(R_k/tau))``, that of the credit rule "rise" if the oracle's
    attempt were one more sibling. Payments .5, 0 and R* = 1, tau = .5: 3 · .665241.

    Source: RISE, https://arxiv.org/abs/2407.18219, read from its abstract; tau and how attempts are taken are ours.
    Beside it, credit = "rise" imitates the policy's own attempts by what they were paid.

    Left out of the paper: a stronger model as the teacher; here it is the environment's oracle.
    """

    type: Literal["rise_teacher"] = "rise_teacher"
    needs: ClassVar[frozenset[Need]] = frozenset({"solutions"})
    weight: float = Field(1.0, gt=0)
    """Factor of the mean cross-entropy per token, which is added to the loss; the rows' own tokens are averaged, so
    more or longer rows do not weigh more."""
    tau: Tau = 0.5
    most: int = Field(2, ge=1)
    """Most attempts of one task in a step after which the oracle's is imitated."""
    note: str = Field(AGAIN, min_length=1)
    """What stands between the attempts; that of branching "rise", where it is set there."""

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return TaughtAttempts(self, means)


@dataclass(slots=True)
class TaughtAttempts(AuxiliarySource):
    """Plays the oracle's attempts, and puts them behind those of the policy."""

    part: RiseTeacher
    means: AuxiliaryContext
    too_long: int = 0

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        """The rows of a step; None where no attempt was worse than the oracle's."""
        self.too_long = 0
        shown = await self._shown([group.task for group in groups], derive_seed(self.means.seed, self.part.type, step))
        rows = [row for group in groups if group.task.id in shown for row in self._rows(group, shown[group.task.id])]
        return AuxiliaryRows(rows=rows, weight=self.part.weight) if rows else None

    def metrics(self) -> Metrics:
        """Rows of this step that were left out, because both attempts are longer than policy.context together."""
        return {"too_long": float(self.too_long)}

    async def _shown(self, tasks: Sequence[Task], seed: int) -> dict[str, tuple[Trajectory, float]]:
        """The oracle's attempt at each task that has one, and what it was paid."""
        known = {task.id: task for task in tasks}
        plans = {name: found[0] for name, task in known.items() if (found := self.means.helpers.solutions(task))}
        entries = [[PrefixTurns(turns=tuple(plan), guidance=ORACLE, whole=True)] for plan in plans.values()]
        played = await self.means.play([known[name] for name in plans], entries, seed=seed) if plans else []
        return {
            group.task.id: (group.trajectories[0], group.scores[0].compared.total)
            for group in played
            if group.scores[0].usable and group.trajectories[0].turns
        }

    def _rows(self, group: ScoredGroup, shown: tuple[Trajectory, float]) -> list[AuxiliaryRow]:
        target, paid = shown
        usable = [
            (score.compared.total, one)
            for one, score in zip(group.trajectories, group.scores, strict=True)
            if score.usable
        ]
        worse = [(own, one) for own, one in usable if own < paid and unguided(one) and one.turns]
        worse = sorted(worse, key=lambda pair: pair[0])[: self.part.most]
        paid_B = np.array([paid, *(own for own, _ in usable)])
        weight = float(reward_softmax(paid_B, np.zeros(len(paid_B), np.int32), self.part.tau)[0])
        frames = self.means.chat.frames(self.means.tools(group.task))
        rows = [after_attempt(one, target, self.part.note, frames, weight=weight) for _, one in worse]
        kept = [row for row in rows if len(row.ids) <= self.means.player.limits.context]
        self.too_long += len(rows) - len(kept)
        return kept


def after_attempt(
    attempt: Trajectory, target: Trajectory, note: str, frames: Frames, *, weight: float = 1.0
) -> AuxiliaryRow:
    """The turns of ``target`` in the state that ``attempt`` led to; only what was said in them is trained."""
    first = target.turns[0]
    text = f"{note}\n{first.observation.text}"
    between = frames.follow_up(text, attempt.turns[-1].completion.ended_by)
    row, begun = row_of(target), len(first.context_ids)
    before = np.concatenate([attempt.ids(), between]).astype(np.int32)
    return AuxiliaryRow(
        ids=np.concatenate([before, row.ids[begun:]]),
        trained=np.concatenate([np.zeros(len(before), np.bool_), row.trained[begun:]]),
        weight=weight,
    )
