"""What a warm start imitates: who wrote it, the oracle or people, and what is read and written when it is played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from turngate.config import WarmStart
from turngate.envs.base import TurnEnv
from turngate.errors import ConfigError, DataError, UnknownName
from turngate.jsonl import read_rows
from turngate.types import Task


def lines_of(env: TurnEnv, section: WarmStart, split: str) -> tuple[list[Task], dict[str, list[str]]]:
    """Tasks and what to write in each turn of them: from the oracle, or from a file."""
    if section.demonstrations is not None:
        return _read(env, section.demonstrations)
    if not env.turn_spec.has_oracle:
        raise ConfigError(f"{type(env).__name__} has no oracle; give warm_start.demonstrations, a JSONL file")
    assert section.episodes is not None
    size = env.tasks.size(split)
    count = section.episodes if size is None else min(size, section.episodes)
    tasks = [env.tasks.task(split, index) for index in range(count)]
    return tasks, {task.id: list(env.oracle(task)) for task in tasks}


def _read(env: TurnEnv, path: Path) -> tuple[list[Task], dict[str, list[str]]]:
    tasks: dict[str, Task] = {}
    lines: dict[str, list[str]] = {}
    for number, data in read_rows(path):
        for key, kind in (("task", str), ("actions", list)):
            if not isinstance(data, dict) or not isinstance(data.get(key), kind):
                raise DataError(path, f"must be a {'text' if kind is str else 'list of texts'}", line=number, field=key)
        if not data["actions"] or not all(isinstance(text, str) for text in data["actions"]):
            raise DataError(path, "must be a non-empty list of texts", line=number, field="actions")
        if data["task"] in lines:
            raise DataError(path, f"task '{data['task']}' has a demonstration already", line=number, field="task")
        try:
            tasks[data["task"]] = env.tasks.find(data["task"])
        except UnknownName as error:
            raise DataError(path, str(error), line=number, field="task") from None
        lines[data["task"]] = data["actions"]
    if not lines:
        raise DataError(path, "holds no demonstration")
    return list(tasks.values()), lines


def texts_of(tasks: list[Task], lines: dict[str, list[str]], env: TurnEnv) -> Iterator[str]:
    """Everything that is read or written when the lines are played: what a tokenizer for this environment learns."""
    for task in tasks:
        observation, _ = env.reset(seed=0, options={"task": task})
        yield observation.text
        for line in lines[task.id]:
            reply, _, terminated, truncated, _ = env.step(line)
            yield line
            yield reply.text
            if terminated or truncated:
                break
