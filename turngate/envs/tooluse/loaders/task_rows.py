"""Tasks of tool use from JSON lines. Each is tried out before it is played; one that cannot be solved is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from turngate.envs.tasks import Dropped, TaskList, split_of, warn_of
from turngate.envs.tooluse.engine.goals import Goal
from turngate.envs.tooluse.engine.gold import GoldRun, play_gold
from turngate.envs.tooluse.engine.watch import CallWatch
from turngate.envs.tooluse.engine.world import OpenWorld
from turngate.envs.tooluse.task import ToolTask
from turngate.errors import DataError, EpisodeError, TaskRefused, UserError
from turngate.jsonl import read_rows
from turngate.problems import of_row
from turngate.types import Task, ToolCall

ENV_ID = "turngate/ToolUse-v1"


class CallRow(BaseModel):
    """A call as a task writes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1)
    arguments: dict[str, object] = {}


class ToolTaskRow(BaseModel):
    """A line of a file of tasks."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    state: Mapping[str, object] | None = None
    gold: tuple[CallRow, ...] = ()
    goal: tuple[Goal, ...] = Field(min_length=1)
    split: str = ""

    @field_validator("goal", mode="before")
    @classmethod
    def _several(cls, value: object) -> object:
        return value if isinstance(value, list) else [value]


def read_tool_tasks(path: Path, world: OpenWorld | None, *, held_out: int, drop: bool) -> TaskList:
    """The tasks in ``path``; their gold calls are tried out in ``world``; None: they are not.

    A row without a split goes to "heldout" if its id is one in ``held_out``, else to "train". Raises DataError, with
    the line, for a row of another form, an id that is used twice and, unless ``drop``, for a task that is refused.
    """
    seen: dict[str, int] = {}
    tasks: list[Task] = []
    dropped: list[Dropped] = []
    for line, row in _rows(path):
        if row.id in seen:
            raise DataError(path, f"the id '{row.id}' is used twice, first in line {seen[row.id]}", line=line)
        seen[row.id] = line
        try:
            if world is not None:
                try_out(world, row.id, row.state, _calls(row), row.goal)
        except (TaskRefused, EpisodeError) as problem:
            if not drop:
                raise DataError(path, str(problem), line=line) from problem
            dropped.append(Dropped(id=row.id, reason=str(problem), line=line))
            continue
        tasks.append(tool_task(row, row.split or split_of(row.id, held_out)))
    if not seen:
        raise DataError(path, "holds no tasks; write one JSON object a line")
    warn_of(dropped, len(seen), "tasks that cannot be solved")
    return TaskList(tasks, dropped)


def tool_task(row: ToolTaskRow, split: str) -> Task:
    """The task of a row, as ``turngate/ToolUse-v1`` plays it."""
    asked = ToolTask(state=row.state, calls=_calls(row), goals=row.goal)
    return Task(id=row.id, env_id=ENV_ID, prompt=row.prompt, private=asked.private(), split=split)


def try_out(
    world: OpenWorld, id: str, state: Mapping[str, object] | None, calls: Sequence[ToolCall], goals: Sequence[Goal]
) -> None:
    """Play the gold calls of a task. Raises TaskRefused where they fail, do not lead to the goals or not always to the
    same state, and where the goals hold although nothing was done."""
    if not world.knows_state:
        if any(goal.needs_state for goal in goals):
            raise TaskRefused(f"task '{id}' has a goal about the state, which this world of tools does not show")
        gold = GoldRun(calls=tuple(calls), before=None, after=None, touched=frozenset())
    else:
        try:
            gold, again = play_gold(world, state, calls), play_gold(world, state, calls)
        except UserError as problem:
            raise TaskRefused(f"task '{id}': {problem}") from problem
        if gold != again:
            raise TaskRefused(f"task '{id}': its gold calls do not always lead to the same state")
    idle = done = CallWatch.begin(gold, goals)
    for call in calls:
        done = done.saw(call, gold.after)
    if not done.solved(gold_answer(goals)):
        raise TaskRefused(f"task '{id}': its gold calls do not meet its goal")
    if idle.solved(None) or idle.solved(""):
        raise TaskRefused(f"task '{id}': its goal holds although nothing was done")


def gold_answer(goals: Sequence[Goal]) -> str:
    """The oracle's answer at the end."""
    return next((goal.gold_answer for goal in goals if goal.gold_answer), "")


def _calls(row: ToolTaskRow) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name=call.name, arguments=call.arguments) for call in row.gold)


def _rows(path: Path) -> Iterator[tuple[int, ToolTaskRow]]:
    for line, data in read_rows(path):
        try:
            yield line, ToolTaskRow.model_validate(data)
        except ValidationError as error:
            problem, field = of_row(error)
            raise DataError(path, problem, line=line, field=field) from error
        except UserError as error:
            raise DataError(path, str(error), line=line) from error
