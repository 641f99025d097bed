"""What trees cost: the turns that were sampled and the environment steps that were taken, against chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turngate.agents.branches import ForkKind, parent_of
from turngate.types import Metrics, Task, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCost:
    """Turns of some trees. ``chain``: what as many chains of the same lengths would take.

    ``sampled``: different turns, V; each was sampled once. ``replayed``: turns that an environment played again to come
    to a branch. ``prefixes``: different beginnings off which leaves branched. Leaves that share one are correlated.
    """

    leaves: int
    branches: int
    chain: int
    sampled: int
    replayed: int
    prefixes: int

    @property
    def steps(self) -> int:
        """Environment steps: V with exact forks, with replay the prefixes besides."""
        return self.sampled + self.replayed


def tree_cost(trajectories: Sequence[Trajectory], fork: Callable[[Task], ForkKind]) -> TreeCost:
    """Count the turns of played trees: M trees of K turns and n branches with r turns left take M·K + n·r steps.

    A retry of a guide is no branch, because its environment takes every turn again. A new attempt shares no turn.
    """
    known = {one.id: one for one in trajectories}
    branched = [one for one in trajectories if parent_of(one, known) is not None]
    shared = {one.id: one.parent[1] for one in branched if one.parent is not None}
    chain = sum(len(one.turns) for one in trajectories)
    return TreeCost(
        leaves=len(trajectories),
        branches=len(branched),
        chain=chain,
        sampled=chain - sum(shared.values()),
        replayed=sum(shared[one.id] for one in branched if fork(one.task) == "replay"),
        prefixes=len({one.parent for one in branched}),
    )


def branch_metrics(cost: TreeCost) -> Metrics:
    """The cost of a step's trees as metrics ``branch/…``; ``saved_share`` is 0 if nothing was saved."""
    return {
        "branch/branches": float(cost.branches),
        "branch/prefixes": float(cost.prefixes),
        "branch/env_steps": float(cost.steps),
        "branch/saved_env_steps": float(cost.chain - cost.steps),
        "branch/saved_turns": float(cost.chain - cost.sampled),
        "branch/saved_share": (cost.chain - cost.steps) / cost.chain if cost.chain else 0.0,
    }
