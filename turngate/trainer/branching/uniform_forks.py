"""Tree-GRPO: a few trees per task, which branch at states that are drawn uniformly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.trainer.branching.base import BranchingPart, check_parts


class TreeGrpoBranching(BranchingPart):
    """Tree-GRPO: each tree begins as a chain, and in every round some of its states, drawn uniformly, are continued.

    With M trees and L rounds each tree is expanded ``(group_size/M − 1)/L`` times a round, with replacement, so a state
    can get several branches at once. Source: https://arxiv.org/abs/2509.21240 and its code (M = 2, L = 1, 2 of them).
    """

    type: Literal["tree_grpo"] = "tree_grpo"
    roots: ClassVar[str] = "trees"
    trees: int = Field(2, ge=1)
    """Trees of each task (M). More trees are more independent; fewer share more turns."""
    rounds: int = Field(1, ge=1)
    """Rounds of expansion (L): later rounds can branch off the branches of earlier ones."""

    def check_size(self, group_size: int) -> None:
        check_parts(
            f"trees = {self.trees} and rounds = {self.rounds}", group_size, self.trees, self.trees * self.rounds
        )

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """First the trees; then the states of this round."""
        if not forest.leaves:
            return [None] * self.trees
        n = (len(forest.leaves) + room - self.trees) // (self.trees * self.rounds)
        trees: dict[str, list[Fork]] = {leaf.id: [] for leaf in forest.trees}
        for leaf, turn in forest.states:
            trees[forest.root(leaf)].append(Fork(id=leaf.id, turn=turn))
        return [
            states[int(place)] if states else None
            for states in trees.values()
            for place in rng.integers(max(1, len(states)), size=n)
        ]
