"""Tasks of BFCL from the rows of its wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turngate.envs.tasks import split_of
from turngate.envs.tooluse.loaders.bfcl.episode import Scenario, UserTurn
from turngate.envs.tooluse.loaders.bfcl.functions import gold_call
from turngate.envs.tooluse.loaders.bfcl.wheel import NAMES, rows, signatures, text_of_new_functions
from turngate.envs.tooluse.loaders.task_rows import ENV_ID
from turngate.envs.tooluse.task import ToolTask
from turngate.errors import DataError, TaskRefused
from turngate.problems import of_row
from turngate.types import Task


class _Message(BaseModel):
    content: str


class _BfclRow(BaseModel):
    """A row of a category; its path of the solution is ignored."""

    model_config = ConfigDict(frozen=True)
    id: str
    question: tuple[tuple[_Message, ...], ...] = Field(min_length=1)
    initial_config: dict[str, object]
    involved_classes: tuple[str, ...] = Field(min_length=1)
    missed_function: dict[int, tuple[str, ...]] = {}


class _Answer(BaseModel):
    ground_truth: tuple[tuple[str, ...], ...]


def read_tasks(
    package: Path, categories: Sequence[str], *, held_out: int, world: Mapping[str, object]
) -> Iterator[Task]:
    """The tasks of some categories, in the order of their rows.

    A task and its variants in the other categories are in the same split, by the number that they share. Raises
    DataError for a row of another form than BFCL's.
    """
    for category in categories:
        file = package / "data" / f"BFCL_v4_multi_turn_{category}.json"
        for line, (row, answer) in enumerate(rows(package, category), 1):
            try:
                yield _task(package, _BfclRow.model_validate(row), _Answer.model_validate(answer), held_out, world)
            except ValidationError as error:
                problem, field = of_row(error)
                raise DataError(file, problem, line=line, field=field) from error
            except TaskRefused as problem:
                raise DataError(file, str(problem), line=line) from problem


def _withheld(row: _BfclRow, answer: _Answer, number: int) -> tuple[str, ...]:
    """The functions that are offered from turn ``number`` on. One that earlier gold calls need is there from the
    beginning: else the task could not be solved (``multi_turn_miss_func_49``)."""
    needed = {text.partition("(")[0].strip() for gold in answer.ground_truth[:number] for text in gold}
    return tuple(name for name in row.missed_function.get(number, ()) if name not in needed)


def _task(package: Path, row: _BfclRow, answer: _Answer, held_out: int, world: Mapping[str, object]) -> Task:
    if unknown := [name for name in row.involved_classes if name not in NAMES]:
        raise TaskRefused(f"task '{row.id}' has the service '{unknown[0]}'; there are {', '.join(NAMES)}")
    if len(answer.ground_truth) != len(row.question):
        turns_of = f"{len(row.question)} turns, but gold calls for {len(answer.ground_truth)}"
        raise TaskRefused(f"task '{row.id}' has {turns_of}")
    known = {name: given for one in row.involved_classes for name, given in signatures(package, one).items()}
    turns = tuple(
        UserTurn(
            says="\n".join(message.content for message in said) or text_of_new_functions(package),
            gold=tuple(gold_call(text, known) for text in gold),
            offers=_withheld(row, answer, number),
        )
        for number, (said, gold) in enumerate(zip(row.question, answer.ground_truth, strict=True))
    )
    scenario = Scenario(
        services=row.involved_classes,
        config=row.initial_config,
        long_context="long_context" in row.id,
        turns=turns,
    )
    calls = tuple(call for turn in turns for call in turn.gold)
    number = re.sub(r"\D", "", row.id)
    return Task(
        id=row.id,
        env_id=ENV_ID,
        prompt=turns[0].says,
        private=ToolTask(world=dict(world), state={"scenario": scenario}, calls=calls, goals=()).private(),
        split=split_of(f"bfcl {number}", held_out),
    )
