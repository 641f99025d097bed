"""``Nuggets``: share of the required facts that a long answer contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from turngate.judges.examiners.base import ExamineContext, Facts
from turngate.judges.examiners.judged import JudgedExaminer
from turngate.judges.texts import Criterion, Fault, Item, JudgeId, Rule, Verdict, item_of_text, verdict_facts
from turngate.rewards.outcome.criteria import criteria_score
from turngate.types import Evidence, Group, Task


class Nuggets(JudgedExaminer):
    """Search-Gen-V's reward for answers of every length (https://arxiv.org/abs/2510.14660).

    ``R = Σ_i w_i·V_i / Σ_j w_j`` over the nuggets of the task, each judged on its own: V is 1 for support, ½ for
    partial support, 0 for none. The values and the weights are ours. A task without nuggets has one: its short answer,
    or an alias of it. The judge sees the answer alone, not what was searched. Without an answer the score is 0, and no
    judge is asked; where a verdict is missing, so is the score, because leaving a nugget out would reward an answer
    that breaks the judge.
    """

    type: Literal["nuggets"] = "nuggets"
    name: str = "nugget_score"
    """Name of the evidence: the weighted share of the nuggets that the answer supports."""
    vital: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Weight of a nugget that the answer has to hold."""
    okay: float = Field(0.5, ge=0, allow_inf_nan=False)
    """Weight of a nugget that is good to have."""

    async def examine(self, groups: Sequence[Group], context: ExamineContext) -> Facts:
        """One batch of questions, for all answers and nuggets."""
        judge = context.judge(self.judge)
        nuggets = [_nuggets(group.task, self.vital, self.okay) for group in groups]
        asked = [
            (_answer_item(one.id, group.task, context.answer(one)), own)
            for group, own in zip(groups, nuggets, strict=True)
            for one in group.trajectories
            if own
        ]
        judged = await judge.support([item for item, _ in asked], [own for _, own in asked])
        answers = iter(judged.answers)
        return [
            [self._scored(next(answers), own, judge.id) if own else self._none() for _ in group.trajectories]
            for group, own in zip(groups, nuggets, strict=True)
        ]

    def _scored(
        self, answers: Sequence[Verdict | Fault | Rule], nuggets: Sequence[Criterion], judge: JudgeId
    ) -> tuple[Evidence, ...]:
        shares = [None if isinstance(one, Fault) else one.score if isinstance(one, Verdict) else 0.0 for one in answers]
        ruled = all(isinstance(one, Rule) for one in answers)
        said = [
            {"nugget": nugget.text, "weight": nugget.weight, "verdict": verdict_facts(self.name, one, judge)[1].value}
            for one, nugget in zip(answers, nuggets, strict=True)
        ]
        score = criteria_score(shares, [nugget.weight for nugget in nuggets])
        return (
            Evidence(name=self.name, value=score, by="verifier" if ruled else "judge"),
            Evidence(name=f"{self.name}_judge", value=said, by="judge"),
        )

    def _none(self) -> tuple[Evidence, ...]:
        """The facts of a task without nuggets and without an answer."""
        return (Evidence(name=self.name, value=None, by="verifier"),)


def _nuggets(task: Task, vital: float, okay: float) -> list[Criterion]:
    """The nuggets of a task as criteria."""
    found = [
        Criterion(
            name=f"statement {number}", text=nugget["text"], weight=vital if nugget["importance"] == "vital" else okay
        )
        for number, nugget in enumerate(task.private.get("nuggets", ()), 1)
    ]
    gold = [] if found else [str(one) for one in task.private.get("gold", ())]
    if gold:
        found = [Criterion(name="statement 1", text=f"The answer is: {' or '.join(gold)}.", weight=vital)]
    return found


def _answer_item(name: str, task: Task, answer: str | None) -> Item:
    """What the judge sees: the question and the answer."""
    return item_of_text(name, task.prompt, answer or "", answer=answer or "")
