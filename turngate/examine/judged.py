"""What examiners that ask a judge have in common: whom they ask, by which criterion, and what is shown."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from turngate.errors import ConfigError
from turngate.examine.base import Desk, Examiner
from turngate.judging import JudgePart
from turngate.rewards.judge import CORRECT, Criterion, Item, item_of
from turngate.types import Group, Trajectory


class Asked(BaseModel):
    """One question to a judge, as a config writes it: a text, or a table."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    text: str = Field(min_length=1)
    """What the judge is to check: when its verdict is yes."""
    name: str = Field("criterion", min_length=1)
    """What the judge and the evidence call it."""
    weight: float = Field(CORRECT.weight, allow_inf_nan=False)
    """What it counts among several; negative for a pitfall."""
    about_task: bool = CORRECT.about_task
    """Whether only an answer to this very task can meet it; false for a criterion such as politeness. If true,
    the judge is tested with answers to other tasks, which must get a no."""

    @property
    def criterion(self) -> Criterion:
        """The same for a judge."""
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
    """Whether the judge sees the agent's thoughts; an agent can plead with the judge there."""
    reference: str = ""
    """Entry of the task's private data that is shown to the judge, and to nobody else, as a reference."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The verdict, and who gave it."""
        return self.name, f"{self.name}_judge"

    def item(self, trajectory: Trajectory, answer: str | None) -> Item:
        """What the judge sees of an episode. Raises ConfigError for a reference that its task does not have."""
        private = trajectory.task.private
        if self.reference and self.reference not in private:
            raise ConfigError(f"reference '{self.reference}' is not among {sorted(private)} of '{trajectory.task.id}'")
        reference = str(private[self.reference]) if self.reference else ""
        return item_of(trajectory, answer=answer, reference=reference, thoughts=self.thoughts)

    def items(self, group: Group, desk: Desk) -> list[Item]:
        """Every sibling with its recorded answer."""
        return [self.item(one, desk.answer(one)) for one in group.trajectories]


class JudgedExaminer(ShowingExaminer):
    """Base of the examiners that ask one judge."""

    judge: JudgePart
    """Who is asked: {type = "policy"}, {type = "server", url = …, model = …} or {type = "model", model = …}."""
