"""``turngate hints``: the hints of a task, level by level, and which levels training would refuse."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from turngate.envs.base import TurnEnv
from turngate.envs.leak import leaked_secret
from turngate.envs.registry import make
from turngate.errors import ConfigError
from turngate.types import Task


def print_hints(
    console: Console, env_id: str, *, split: str | None, index: int, task_id: str, level: int | None
) -> None:
    """Print the hints of one task: number ``index`` of ``split`` (None: the first one), or the one named ``task_id``.

    ``level``: that level alone. Raises ConfigError for an environment, a task or a level without a hint, UnknownName
    for an unknown task or split.
    """
    with make(env_id) as env:
        task = env.tasks.find(task_id) if task_id else _numbered(env, env.split if split is None else split, index)
        most = env.turn_spec.hint_levels
        if not most:
            raise ConfigError(
                f"'{env_id}' has no hints; write hint(task, level) and declare turn_spec.hint_levels (see CONTRIBUTING)"
            )
        if level is not None and level > most:
            raise ConfigError(f"--level is {level}, but '{env_id}' has {most} levels")
        console.print(f"[{task.id}] {task.prompt}", markup=False, highlight=False)
        _print_levels(console, env, task, range(1, most + 1) if level is None else [level])


def _print_levels(console: Console, env: TurnEnv, task: Task, levels: Sequence[int]) -> None:
    secrets = env.secrets(task)
    for level in levels:
        text = env.hint(task, level)
        if text is None:
            console.print(f"level {level}: none for this task", highlight=False)
            continue
        secret = leaked_secret(text, secrets, task.prompt)
        refused = f" (refused in training: it holds the answer, '{secret:.60}')" if secret else ""
        console.print(f"level {level}{refused}: {text}", markup=False, highlight=False)


def _numbered(env: TurnEnv, split: str, index: int) -> Task:
    size = env.tasks.size(split)
    if size is not None and index >= size:
        raise ConfigError(f"split '{split}' holds {size} tasks; --index goes from 0 to {size - 1}")
    return env.tasks.task(split, index)
