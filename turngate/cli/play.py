"""``turngate play``: an environment at the keyboard."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from turngate.cli import consoles
from turngate.cli.named_env import EnvId, EnvKwargs, arguments_of
from turngate.envs.base import TurnEnv
from turngate.envs.registry import make
from turngate.errors import ConfigError
from turngate.types import Observation, Task

app = typer.Typer(rich_markup_mode=None)


@app.command()
def play(
    env: EnvId,
    split: Annotated[str, typer.Option(help="Split of the environment's tasks.")] = "train",
    index: Annotated[int, typer.Option(min=0, help="Number of the task in its split, from 0.")] = 0,
    oracle: Annotated[bool, typer.Option(help="Let the environment's oracle (its own solution) play.")] = False,
    kwargs: EnvKwargs = "{}",
    config: Annotated[
        Path | None, typer.Option(help="TOML file, as for train, whose environment ID is played.")
    ] = None,
    screenshots: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where images are written, else screenshots/TASK.")
    ] = None,
) -> None:
    """Play an environment at the keyboard. An empty line or Ctrl-D ends the episode.

    Where observations hold images, as with --kwargs '{screenshot = "plain"}' for turngate/Web-v1, each is written.
    """
    given, console = arguments_of(env, kwargs, config), consoles.output()
    with make(env, **given) as made:
        _play(made, console, _Gallery(console, screenshots), split=split, index=index, oracle=oracle)


class _Gallery:
    """Writes the images of observations into a folder, and prints where they are."""

    def __init__(self, console: Console, folder: Path | None) -> None:
        self._console, self._folder, self._n = console, folder, 0

    def hang(self, task: Task, seen: Observation) -> None:
        """Write the images of the next observation. Raises ConfigError if a folder was given and the first has none."""
        from turngate.store.files import write_image

        if not self._n and not seen.images and self._folder is not None:
            raise ConfigError(
                f"--screenshots has no effect: an observation of task '{task.id}' holds no image; turngate/Web-v1 "
                "sends them with --kwargs '{screenshot = \"plain\"}'"
            )
        if seen.images and self._folder is None:
            self._folder = _new_folder(Path("screenshots"), task.id)
        for number, image in enumerate(seen.images):
            assert self._folder is not None
            path = write_image(image, self._folder, f"turn_{self._n:03d}" + (f"_{number}" if number else ""))
            self._console.print(f"image: {path}", markup=False, highlight=False, soft_wrap=True)
        self._n += 1


def _new_folder(parent: Path, task_id: str) -> Path:
    """A path in ``parent``, named after a task, that is not taken."""
    name = re.sub(r"[^\w.-]+", "-", task_id).strip("-.") or "task"
    return next(path for number in count(1) if not (path := parent / f"{name}-{number}").exists())


def _play(env: TurnEnv, console: Console, gallery: _Gallery, *, split: str, index: int, oracle: bool) -> None:
    size = env.tasks.size(split)
    if size is not None and index >= size:
        raise ConfigError(f"split '{split}' holds {size} tasks; --index goes from 0 to {size - 1}")
    task = env.tasks.task(split, index)
    lines = iter(env.oracle(task)) if oracle else None
    observation, _ = env.reset(seed=0, options={"task": task})
    console.print(f"[{task.id}] {observation.text}", markup=False, highlight=False)
    gallery.hang(task, observation)
    for tool in env.turn_spec.tools:
        console.print(f"  {tool.usage:<24} {tool.description}", markup=False, highlight=False)
    total = 0.0
    while True:
        action = next(lines, "") if lines is not None else _ask(console)
        if not action:
            console.print("stopped")
            break
        if lines is not None:
            console.print(f"> {action}", markup=False, highlight=False)
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        console.print(observation.text, markup=False, highlight=False)
        gallery.hang(task, observation)
        if terminated or truncated:
            score = info["score"]
            assert score is not None  # ``step`` always gives the score of an episode that has ended
            outcome = "unknown" if score.outcome is None else f"{score.outcome:g}"
            console.print(f"{info['ending']}: outcome {outcome}, paid {total:.3f}", highlight=False)
            break


def _ask(console: Console) -> str:
    try:
        return console.input("> ", markup=False)
    except EOFError:
        return ""
