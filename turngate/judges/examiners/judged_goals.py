"""``JudgedGoals``: whether all goals of a task of tool use hold, also those that only a judge can decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import JudgedExaminer
from turngate.judges.texts import Criterion, Fault, Item, JudgeId, Rule, Verdict, unanimous, verdict_facts
from turngate.types import Evidence, Group, Task, Trajectory

if TYPE_CHECKING:
    from turngate.envs.tooluse.engine.goals import RubricGoal


class JudgedGoals(JudgedExaminer):
    """Whether the goals of a task of ``turngate/ToolUse-v1`` hold: a yes from the environment and from the judge.

    The judge is asked about each goal of type ``rubric``, unless the environment has found already that the episode is
    lost. One no decides; where a verdict is missing and none is a no, the fact is missing, too. Tasks without such
    goals keep the environment's finding, so one run can hold both.
    """

    type: Literal["judged_goals"] = "judged_goals"
    name: str = "goals_met"
    """Name of the evidence: whether all goals hold."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One batch of questions for each goal of a task."""
        return [await self._of_group(group, context) for group in groups]

    async def _of_group(self, group: Group, context: ExamineContext) -> list[tuple[Evidence, ...]]:
        judge, found = context.judge(self.judge), [_found(one) for one in group.trajectories]
        goals = _goals(group.task)
        open_ = [place for place, solved in enumerate(found) if goals and solved is None]
        shown = self.items(group, context)
        answers: dict[int, list[Verdict | Fault | Rule]] = {place: [] for place in open_}
        for number, goal in enumerate(goals, 1):
            items = [_with_reference(shown[place], goal) for place in open_]
            judged = await judge.pointwise(items, Criterion(name=f"goal {number}", text=goal.text))
            for place, answer in zip(open_, judged.answers, strict=True):
                answers[place].append(answer)
        return [
            self._judged(answers[place], judge.id) if place in answers else self._settled(solved)
            for place, solved in enumerate(found)
        ]

    def _judged(self, answers: Sequence[Verdict | Fault | Rule], judge: JudgeId) -> tuple[Evidence, ...]:
        said = [verdict_facts(self.name, answer, judge)[1].value for answer in answers]
        return (
            Evidence(name=self.name, value=unanimous(answers), by="judge"),
            Evidence(name=f"{self.name}_judge", value=said, by="judge"),
        )

    def _settled(self, solved: bool | None) -> tuple[Evidence, ...]:
        """The finding of the environment, which no judge was asked about."""
        return (
            Evidence(name=self.name, value=solved, by="verifier"),
            Evidence(name=f"{self.name}_judge", value=[], by="verifier"),
        )


def _goals(task: Task) -> list[RubricGoal]:
    """The goals of a task that a judge decides."""
    from turngate.envs.tooluse.engine.goals import (
        RubricGoal,  # here, because every config that is read loads this module
    )

    return [goal for goal in task.private.get("goals", ()) if isinstance(goal, RubricGoal)]


def _found(trajectory: Trajectory) -> bool | None:
    """The environment's finding; None if a judge has to decide, or nothing could be measured."""
    values = [fact.value for fact in trajectory.evidence if fact.name == "solved" and fact.turn is None]
    return bool(values[-1]) if values and values[-1] is not None else None


def _with_reference(item: Item, goal: RubricGoal) -> Item:
    return replace(item, reference=goal.reference) if goal.reference else item
