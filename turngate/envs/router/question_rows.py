"""Questions for routing agents, from JSON lines."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from turngate.envs.router.generate import ENV_ID
from turngate.envs.router.task import RouterTask
from turngate.envs.tasks import TaskList, split_of
from turngate.errors import DataError
from turngate.jsonl import read_rows
from turngate.problems import of_row
from turngate.rewards.outcome.normal_form import normalize
from turngate.types import Task


class QuestionRow(BaseModel):
    """A line of a file of questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = ""
    prompt: str = Field(min_length=1)
    answers: tuple[str, ...] = Field(min_length=1)
    split: str = ""

    @field_validator("answers", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value


def read_questions(path: Path, *, held_out: int) -> TaskList:
    """The questions in ``path``. One in ``held_out`` goes to "heldout", chosen by its text, unless the row names a
    split. Raises DataError, with the line, for a row of another form, an empty answer and an id that is used twice."""
    lines: dict[str, int] = {}
    tasks: list[Task] = []
    for line, data in read_rows(path):
        try:
            row = QuestionRow.model_validate(data)
        except ValidationError as error:
            problem, field = of_row(error)
            raise DataError(path, problem, line=line, field=field) from error
        if not all(normalize(answer).strip() for answer in row.answers):
            raise DataError(path, "has an empty answer; every answer would be right", line=line, field="answers")
        name = f"{path.stem}/{row.id or line}"
        if name in lines:
            raise DataError(path, f"the id '{row.id}' is used twice, first in line {lines[name]}", line=line)
        lines[name] = line
        split = row.split or split_of(normalize(row.prompt, faithful=True), held_out)
        private = RouterTask(gold=list(row.answers)).private()
        tasks.append(Task(id=name, env_id=ENV_ID, prompt=row.prompt, private=private, split=split))
    if not tasks:
        raise DataError(path, "holds no questions; write one JSON object a line")
    return TaskList(tasks)
