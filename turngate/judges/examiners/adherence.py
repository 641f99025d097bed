"""``Adherence``: whether each turn of an episode follows the plan that the agent was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from turngate.envs.planned import PLAN
from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import Asked, OneCriterion
from turngate.judges.examiners.steps import Steps
from turngate.judges.texts import Item
from turngate.types import Evidence, Group, Trajectory

FOLLOWS = Asked(
    name="adherence",
    text="The turn carries out the step of the plan (the reference) that is due, or goes on with it.",
    about_task=False,
)


class Adherence(Steps):
    """A judge's verdict on every turn of an episode that had a plan: 1 = it follows the plan, 0 = it does not.

    A plan is what guide "pilot" gave, or what the agent wrote in its first turn (``turngate/Planned-v1``), a turn that
    is not judged itself. Episodes without a plan, such as those of an evaluation without the guide, get 0, and no judge
    is asked. Source: PilotRL, https://arxiv.org/abs/2508.00344.
    """

    type: Literal["adherence"] = "adherence"  # type: ignore[assignment]
    name: str = "adherence"
    """Name of the evidence: the verdict on each turn, 1 = it follows the plan and 0 = it does not."""
    criterion: OneCriterion = FOLLOWS
    """The criterion for a turn that follows the plan: a text, or a table {text, name, about_task}."""

    def item(self, trajectory: Trajectory, answer: str | None) -> Item:
        """What the judge sees: the episode, with the plan as the reference."""
        return replace(super().item(trajectory, answer), reference=_plan_in(trajectory))

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """Verdicts on the episodes that had a plan, 0 for the others."""
        planned = [
            replace(group, trajectories=tuple(one for one in group.trajectories if _plan_in(one))) for group in groups
        ]
        found = [iter(row) for row in await super().examine(planned, context)]
        return [
            [self._of_actions(one, next(rows)) if _plan_in(one) else self._without(one) for one in group.trajectories]
            for group, rows in zip(groups, found, strict=True)
        ]

    def _of_actions(self, trajectory: Trajectory, facts: Sequence[Evidence]) -> tuple[Evidence, ...]:
        """The facts without the verdict on the turn in which the agent wrote the plan itself."""
        own = _own_plan(trajectory)
        return tuple(fact for fact in facts if own is None or fact.name != self.name or fact.turn != own.turn)

    def _without(self, trajectory: Trajectory) -> tuple[Evidence, ...]:
        turns = range(len(trajectory.turns)) or (None,)
        zeros = [Evidence(name=self.name, value=0.0, turn=turn, by="verifier") for turn in turns]
        return *zeros, Evidence(name=f"{self.name}_judge", value={"rule": "no plan"}, by="verifier")


def _plan_in(trajectory: Trajectory) -> str:
    """The text of the plan that the agent was given or wrote itself; "" if there is none."""
    guidance, own = trajectory.guidance, _own_plan(trajectory)
    if guidance is not None and guidance.kind == "plan":
        return guidance.text
    return "" if own is None or own.value is None else str(own.value)


def _own_plan(trajectory: Trajectory) -> Evidence | None:
    return next((fact for fact in trajectory.evidence if fact.name == PLAN), None)
