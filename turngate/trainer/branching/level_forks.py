"""TreeRPO and PORTool: every turn has several continuations, from the first turn on, until the budget is used up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.errors import ConfigError
from turngate.trainer.branching.base import BranchingPart


def missing_children(forest: Forest, children: int) -> list[Fork]:
    """Forks that give the states of the first incomplete level ``children`` next turns each; empty if all have them.

    Level d are the states before turn d; the first turn is complete with the trees themselves.
    """
    used = forest.used
    levels: dict[int, list[Fork]] = {}
    for leaf, turn in forest.later_states:
        n = children - 1 - used.get((leaf.id, turn), 0)
        levels.setdefault(turn, []).extend([Fork(id=leaf.id, turn=turn)] * n)
    return next((forks for _, forks in sorted(levels.items()) if forks), [])


class TreeRpoBranching(BranchingPart):
    """TreeRPO: N continuations of every turn, level by level.

    A full tree of D turns has N^D leaves. The levels are filled from the first turn on; the last one that the budget
    reaches is filled in order. Source: https://arxiv.org/abs/2506.05183.
    """

    type: Literal["tree_rpo"] = "tree_rpo"
    children: int = Field(2, ge=2)
    """Continuations of each turn (N); train.group_size = N^D fills D turns."""

    def check_size(self, group_size: int) -> None:
        _check_levels(group_size, "children", self.children)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """The next level."""
        return missing_children(forest, self.children) if forest.leaves else [None] * self.children


class PorToolBranching(BranchingPart):
    """PORTool: paths fork at every turn until there are enough; which of them fork last is drawn at random.

    Source: https://arxiv.org/abs/2510.26020. It draws candidates for the next turn and keeps as many as trajectories
    are missing; here no more are drawn than are kept, so no sampled turn is discarded.
    """

    type: Literal["portool"] = "portool"
    forks: int = Field(2, ge=2)
    """Most continuations of a turn (f)."""

    def check_size(self, group_size: int) -> None:
        _check_levels(group_size, "forks", self.forks)

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """The next level, in random order."""
        if not forest.leaves:
            return [None] * self.forks
        level = missing_children(forest, self.forks)
        return [level[int(place)] for place in rng.permutation(len(level))]


def _check_levels(group_size: int, name: str, n: int) -> None:
    if group_size <= n:
        raise ConfigError(
            f"branching.{name} = {n} has no effect beyond the first turn with train.group_size {group_size}; "
            "lower it, or raise group_size"
        )
