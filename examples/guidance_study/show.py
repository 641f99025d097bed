"""Demonstrations that teach a model to act and to follow hints.

Those of the lock say nothing about which key is right: each has keys of its own, drawn at random for every colour.
Half come with a hint that names all of these keys, as the hints of the environment name the right ones, and a quarter
with one that names some; what a hint does not name, and all keys without one, are drawn turn by turn. Those of SQL are
the oracle's; every second one shows one of the environment's hints.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turngate.config.run_config import Config
from turngate.envs.lock import COLOURS, KEYS, LockTasks, colours_of
from turngate.run.environments import Environments
from turngate.types import derive_seed

FIRST = 1_000_000  # training plays the tasks before it
LOCKS = 1600
QUERIES = 200


def show_locks(file: Path, seed: int, _config: Config, *, dials: int) -> None:
    """Write the demonstrations of a seed: JSON lines, as ``warm_start.demonstrations`` reads them."""
    tasks = LockTasks(dials)
    _write(file, [_lock(tasks, number, _rng(seed, number)) for number in range(LOCKS)])


def show_queries(file: Path, seed: int, config: Config) -> None:
    """Write the demonstrations of a seed for the environment of ``config``."""
    rows = []
    with Environments(config.env) as environments:
        ((_, env),) = environments
        for number in range(QUERIES):
            task = env.tasks.task("train", FIRST + seed * QUERIES + number)
            row: dict[str, object] = {"task": task.id, "actions": [str(action) for action in env.oracle(task)]}
            level = int(_rng(seed, number).integers(1, env.turn_spec.hint_levels + 1))
            rows.append(row | {"hint": env.hint(task, level)} if number % 2 else row)
    _write(file, rows)


def _rng(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, "shown", number))


def _write(file: Path, rows: Sequence[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _lock(tasks: LockTasks, number: int, rng: np.random.Generator) -> dict[str, object]:
    task = tasks.task("train", FIRST + number)
    colours = colours_of(task)
    present = [colour for colour in COLOURS if colour in colours]
    named = (present if number % 2 else present[: int(rng.integers(1, len(present) + 1))]) if number % 4 else []
    keys = {colour: KEYS[int(rng.integers(len(KEYS)))] for colour in named}
    pressed = [keys.get(colour) or KEYS[int(rng.integers(len(KEYS)))] for colour in colours]
    hint = f"{', '.join(f'{colour} takes {key}' for colour, key in keys.items())}."
    row: dict[str, object] = {"task": task.id, "actions": [f"press {key}" for key in pressed]}
    return row | {"hint": hint} if keys else row
