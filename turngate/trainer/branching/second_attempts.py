"""RISE: the policy tries again after it has seen its own attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.errors import ConfigError
from turngate.trainer.branching.base import BranchingPart, check_parts
from turngate.types import Trajectory

AGAIN = "Above is your last attempt. Try the task again from the start, and do better."
"""What the policy is told before a further attempt, unless the note says otherwise."""


class RiseBranching(BranchingPart):
    """RISE: each episode is followed by improved attempts at the same task, which are shown the attempt before.

    A new attempt begins in a fresh environment. Its context is the whole earlier attempt, which is not trained again
    there, the note, and the first observation. Where two attempts do not fit into policy.context, a new first attempt
    is played instead. Source: RISE (https://arxiv.org/abs/2407.18219).

    Left out of the paper: how it learns, which is to imitate the best of several attempts, or a teacher's, at every
    state that was visited, weighted by reward, and to repeat that over iterations. Here attempts are learned from by
    the credit rule, as other episodes are; stages with credit = "rise" and the auxiliary loss "rise_teacher" do the
    rest.
    """

    type: Literal["rise"] = "rise"
    shares: ClassVar[bool] = False
    least_turns: ClassVar[int] = 1
    attempts: int = Field(2, ge=2)
    """Attempts in a row; train.group_size must be a multiple of it."""
    note: str = Field(AGAIN, min_length=1)
    """What the policy is told before a further attempt."""

    def check_size(self, group_size: int) -> None:
        if group_size % self.attempts:
            raise ConfigError(
                f"branching.attempts = {self.attempts} does not divide train.group_size {group_size}; change one"
            )
        check_parts(f"attempts = {self.attempts}", group_size, group_size // self.attempts)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """First all first attempts, then what follows the latest ones."""
        n = (len(forest.leaves) + room) // self.attempts
        if not forest.leaves:
            return [None] * n
        return [self._again(leaf, forest) for leaf in forest.leaves[-n:]]

    def _again(self, last: Trajectory, forest: Forest) -> Fork | None:
        first = forest.leaves[0]
        sound = bool(last.turns) and last.ending.usable
        fits = sound and len(last.ids()) + len(first.ids()) <= forest.context
        return Fork(id=last.id, note=self.note) if fits else None
