"""``Trees``: how a training step plays trees instead of chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.agents.branches import ForkKind
from turngate.agents.prefix_turns import Entry
from turngate.agents.rollout import Player, Worlds, ignore
from turngate.agents.tree_rollout import Expander, play_tree
from turngate.trainer.branching.tree_costs import TreeCost, tree_cost
from turngate.types import Group, Task, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Where the trees of a run grow, and how the environment of a task is forked."""

    expander: Expander
    fork: Callable[[Task], ForkKind]

    async def play(
        self,
        player: Player,
        worlds: Worlds,
        tasks: Sequence[Task],
        plans: Sequence[Sequence[Entry]],
        *,
        seed: int,
        ended: Callable[[Group], None] = ignore,
    ) -> list[Group]:
        return await play_tree(player, worlds, tasks, plans, self.expander, fork=self.fork, seed=seed, ended=ended)

    def cost(self, leaves: Sequence[Trajectory]) -> TreeCost:
        """What the leaves of one task cost."""
        return tree_cost(leaves, self.fork)
