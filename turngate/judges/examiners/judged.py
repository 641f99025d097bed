"""Base of the examiners that ask a judge: which judge, which criterion, and what the judge is shown."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from turngate.errors import ConfigError
from turngate.judges.asking import JudgePart
from turngate.judges.examiners.base import ExamineContext, Examiner
from turngate.judges.texts import CORRECT, Criterion, Item, item_of
from turngate.types import Group, Trajectory


class Asked(BaseModel):
    """One criterion, as a config writes it: a text, or a table with these entries."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = Field(min_length=1)
    """Statement that the judge checks, which is true when the verdict should be yes."""
    name: str = Field("criterion", min_length=1)
    """Name of the criterion, in the judge's prompt and in the evidence."""
    weight: float = Field(CORRECT.weight, allow_inf_nan=False)
    """Weight of the criterion among several; negative for something that an episode should avoid."""
    about_task: bool = CORRECT.about_task
    """Whether only an answer to this very task can meet the criterion; set false for one such as politeness. If true,
    the judge is also tested with answers to other tasks, which must get a no."""

    @property
    def criterion(self) -> Criterion:
        """The criterion that a judge is asked about."""
        return Criterion(name=self.name, text=self.text, weight=self.weight, about_task=self.about_task)


def _table(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


OneCriterion: TypeAlias = Annotated[Asked, BeforeValidator(_table)]
DONE = Asked(name=CORRECT.name, text=CORRECT.text)
"""The default: the task is done."""


class ShowingExaminer(Examiner):
    """Base of the examiners that show episodes to judges. A subclass sets ``type`` and writes ``examine``.

    Besides ``name`` it records ``NAME_judge``: who judged, in which version, and why.
    """

    name: str
    """Name of the evidence."""
    thoughts: bool = False
    """Whether the judge sees the agent's thoughts. An agent can learn to persuade the judge there."""
    reference: str = ""
    """Name of the entry of the task's private data that the judge is shown as a reference; empty: none."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The verdict, and the record of who gave it."""
        return self.name, f"{self.name}_judge"

    def item(self, trajectory: Trajectory, answer: str | None) -> Item:
        """What the judge sees of an episode. Raises ConfigError for a reference that its task does not have."""
        private = trajectory.task.private
        if self.reference and self.reference not in private:
            raise ConfigError(f"reference '{self.reference}' is not among {sorted(private)} of '{trajectory.task.id}'")
        reference = str(private[self.reference]) if self.reference else ""
        return item_of(trajectory, answer=answer, reference=reference, thoughts=self.thoughts)

    def items(self, group: Group, context: ExamineContext) -> list[Item]:
        """What the judge sees of every sibling, with its recorded answer."""
        return [self.item(one, context.answer(one)) for one in group.trajectories]


class JudgedExaminer(ShowingExaminer):
    """Base of the examiners that ask one judge."""

    judge: JudgePart
    """The judge: {type = "policy"}, {type = "server", url = …, model = …} or {type = "model", model = …}."""
