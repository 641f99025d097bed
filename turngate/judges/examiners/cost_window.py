"""``CostWindow``: how expensive an episode was compared with the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from turngate.judges.examiners.base import ExamineContext, Examiner, Facts, Scope
from turngate.rewards.outcome.costs import cost_bounds, cost_score
from turngate.types import Evidence, Group, Trajectory


class CostWindow(Examiner):
    """The cost of each episode on the scale of the last ones, Router-R1's cost reward
    (https://arxiv.org/abs/2506.09033).

    ``1 − clip((√c − q05)/(q95 − q05), 0, 1)`` over the costs of the last ``window`` episodes, those of this step among
    them. The scale of a step is fixed before any of its episodes is scored, so the order within a step does not matter
    but for which episodes leave the window. Costs are remembered in the checkpoint, and the score is recorded:
    scoring again gives the same. Evaluations are measured on the scale as it is and do not change it.
    """

    type: Literal["cost_window"] = "cost_window"
    scope: ClassVar[Scope] = "batch"
    name: str = "cost_rank"
    """Name of the evidence: 1 for the cheapest episodes of the window, 0 for the most expensive."""
    cost: str = "cost"
    """Name of the evidence that holds the cost of an episode."""
    window: int = Field(1000, ge=1)
    """Number of episodes whose costs make up the scale."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The score."""
        return (self.name,)

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """Take the costs of the step into the window, then score each by it."""
        costs = [[self._cost(one) for one in group.trajectories] for group in groups]
        remembered = context.memory.get("costs", [])
        assert isinstance(remembered, list)
        seen = [*remembered, *(cost for row in costs for cost in row if cost is not None)][-self.window :]
        context.memory["costs"] = seen
        low, high = cost_bounds(seen) if seen else (0.0, 0.0)
        return [
            [
                (Evidence(name=self.name, value=None if cost is None else cost_score(cost, low, high), by="verifier"),)
                for cost in row
            ]
            for row in costs
        ]

    def _cost(self, trajectory: Trajectory) -> float | None:
        found = [fact.value for fact in trajectory.evidence if fact.name == self.cost and fact.turn is None]
        return float(found[-1]) if found and isinstance(found[-1], int | float) else None
