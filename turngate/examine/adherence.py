"""``Adherence``: whether each turn of an episode follows the plan that the agent was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from turngate.examine.base import Desk, Facts
from turngate.examine.judged import Asked, OneCriterion
from turngate.examine.steps import Steps
from turngate.rewards.judge import Item
from turngate.types import Evidence, Group, Trajectory

FOLLOWS = Asked(
    name="adherence",
    text="The turn carries out the step of the plan (the reference) that is due, or goes on with it.",
    about_task=False,
)


class Adherence(Steps):
    """A judge's verdict on every turn of an episode that had a plan: 1 = it follows the plan, 0 = it does not.

    Episodes without a plan, those of an evaluation among them, follow none: 0, and no judge is asked.
    Source: PilotRL's first stage, https://arxiv.org/abs/2508.00344 (see guide "pilot").
    """

    type: Literal["adherence"] = "adherence"  # type: ignore[assignment]
    name: str = "adherence"
    """Name of the evidence: the verdict on each turn, 1 = it follows the plan and 0 = it does not."""
    criterion: OneCriterion = FOLLOWS
    """The criterion for a turn that follows the plan: a text, or a table {text, name, about_task}."""

    def item(self, trajectory: Trajectory, answer: str | None) -> Item:
        """What the judge sees: the episode, with the plan as the reference."""
        plan = trajectory.guidance
        assert plan is not None  # others are not judged
        return replace(super().item(trajectory, answer), reference=plan.text)

    async def examine(self, groups: Sequence[Group], desk: Desk) -> Facts:
        """Verdicts on the episodes that had a plan, 0 for the others."""
        planned = [
            replace(group, trajectories=tuple(one for one in group.trajectories if _has_plan(one))) for group in groups
        ]
        found = [iter(row) for row in await super().examine(planned, desk)]
        return [
            [next(rows) if _has_plan(one) else self._without(one) for one in group.trajectories]
            for group, rows in zip(groups, found, strict=True)
        ]

    def _without(self, trajectory: Trajectory) -> tuple[Evidence, ...]:
        turns = range(len(trajectory.turns)) or (None,)
        zeros = [Evidence(name=self.name, value=0.0, turn=turn, by="verifier") for turn in turns]
        return *zeros, Evidence(name=f"{self.name}_judge", value={"rule": "no plan"}, by="verifier")


def _has_plan(trajectory: Trajectory) -> bool:
    return trajectory.guidance is not None and trajectory.guidance.kind == "plan"
