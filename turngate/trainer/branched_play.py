"""``Trees``: how a training step plays trees instead of chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.agents.branches import ForkKind
from turngate.agents.rollout import Player, Worlds, nobody
from turngate.agents.tree_rollout import Expander, play_tree
from turngate.trainer.branch_costs import branch_metrics, tree_cost
from turngate.types import Group, Metrics, Task


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
        *,
        budget: int,
        seed: int,
        ended: Callable[[Group], None] = nobody,
    ) -> list[Group]:
        """See ``play_tree``."""
        return await play_tree(
            player, worlds, tasks, self.expander, budget=budget, fork=self.fork, seed=seed, ended=ended
        )

    def metrics(self, groups: Sequence[Group]) -> Metrics:
        """See ``branch_metrics``."""
        leaves = [trajectory for group in groups for trajectory in group.trajectories]
        return branch_metrics(tree_cost(leaves, self.fork))
