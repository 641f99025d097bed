"""``turngate hints``: the hints of a task, level by level, and which levels training would refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.cli.named_env import EnvId
from turngate.envs.base import TurnEnv
from turngate.envs.leak import leaked_secret
from turngate.envs.registry import make
from turngate.errors import ConfigError
from turngate.types import Task

app = typer.Typer(rich_markup_mode=None)


@app.command()
def hints(
    env: EnvId,
    task: Annotated[str, typer.Option(help="Id of the task; without it, --split and --index say which.")] = "",
    level: Annotated[int | None, typer.Option(min=1, help="Print this level only.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the environment's tasks; its first one.")] = None,
    index: Annotated[int | None, typer.Option(min=0, help="Number of the task in its split, from 0.")] = None,
) -> None:
    """Print the hints of a task, level by level. Training refuses those that hold the answer."""
    if task and (split is not None or index is not None):
        raise ConfigError("--split and --index have no effect with --task, which says which task it is")
    with make(env) as made:
        chosen = made.tasks.find(task) if task else _numbered(made, made.split if split is None else split, index or 0)
        most = made.turn_spec.hint_levels
        if not most:
            raise ConfigError(
                f"'{env}' has no hints; write hint(task, level) and declare turn_spec.hint_levels (see CONTRIBUTING)"
            )
        if level is not None and level > most:
            raise ConfigError(f"--level is {level}, but '{env}' has {most} levels")
        console = consoles.output()
        console.print(f"[{chosen.id}] {chosen.prompt}", markup=False, highlight=False)
        _print_levels(console, made, chosen, range(1, most + 1) if level is None else [level])


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
