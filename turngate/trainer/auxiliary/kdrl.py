"""KDRL: where the policy failed, it is also drawn to what a teacher would have said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.trainer.auxiliary.base import (
    AuxiliaryContext,
    AuxiliaryPart,
    AuxiliaryRow,
    AuxiliaryRows,
    AuxiliarySource,
    own_tokens,
)
from turngate.trainer.batch.contexts import without_hint
from turngate.trainer.guidance.results import is_solved
from turngate.types import ScoredGroup, Trajectory


class Kdrl(AuxiliaryPart):
    """Draws the policy to a teacher on its own failed episodes, ever less as training goes on.

    Adds ``β·mean ½(log π − log π_T)²`` over the tokens that the policy wrote in them, to the loss. On such tokens the
    gradient is that of KL(π ‖ π_T). The teacher reads the same context, observations included, so it needs the same
    tokenizer. Both are at the sampler's temperature and over the whole vocabulary, so a teacher that equals the policy
    does not pull; tokens that were sampled with top-p, top-k or a hint that is left out are not weighed by a ratio. β
    falls along a line. Source: KDRL, https://arxiv.org/abs/2506.02208, from a review of it: β from 5e-3 to
    1e-3, and no teacher where the answer was right.
    """

    type: Literal["kdrl"] = "kdrl"
    teacher: str
    """The teacher: a folder, a name on the Hugging Face hub, or "start" for the model that training began from."""
    beta: float = Field(5e-3, gt=0)
    """Weight in the first step."""
    beta_last: float = Field(1e-3, gt=0)
    """Weight after ``anneal_steps``."""
    anneal_steps: int = Field(100, ge=1)
    """Training steps over which the weight goes from ``beta`` to ``beta_last``."""
    spare: Literal["response", "group"] = "response"
    """Which episodes the teacher leaves alone. response: those that succeeded; group: all of a task with a success."""

    @property
    def teachers(self) -> tuple[str, ...]:
        """The teacher."""
        return (self.teacher,)

    def open(self, means: AuxiliaryContext) -> AuxiliarySource:
        return TeacherRows(self, means)

    def weight_at(self, step: int) -> float:
        """β in ``step``, which is counted from 1."""
        done = min(1.0, (step - 1) / self.anneal_steps)
        return self.beta + (self.beta_last - self.beta) * done


class TeacherRows(AuxiliarySource):
    """Asks the teacher about failed episodes."""

    def __init__(self, part: Kdrl, means: AuxiliaryContext) -> None:
        self._part, self._likelihoods = part, means.teacher(part.teacher)

    async def rows(self, groups: Sequence[ScoredGroup], step: int) -> AuxiliaryRows | None:
        failed = [without_hint(one) for one in self._failed(groups)]
        pairs = [(one.ids(), own) for one in failed if (own := own_tokens(one)).any()]
        found = self._likelihoods([ids for ids, _ in pairs], [own for _, own in pairs])
        rows = []
        for (ids, own), logprob in zip(pairs, found, strict=True):
            teacher = np.zeros(len(ids), np.float32)
            teacher[own] = logprob
            rows.append(AuxiliaryRow(ids=ids, trained=own, teacher=teacher))
        return AuxiliaryRows(rows=rows, weight=self._part.weight_at(step))

    def _failed(self, groups: Sequence[ScoredGroup]) -> Iterator[Trajectory]:
        for group in groups:
            spared = self._part.spare == "group" and any(map(is_solved, group.scores))
            for trajectory, score in zip(group.trajectories, group.scores, strict=True):
                if score.usable and not is_solved(score) and not spared and trajectory.turns:
                    yield trajectory
