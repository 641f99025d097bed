"""Demonstrations of the lock that teach to press keys and to follow hints, and nothing about which key is right.

Each has keys of its own, drawn at random for every colour. Three of four come with a hint that names some of these keys,
as the hints of the environment name the right ones; what a hint does not name, and all keys without one, are drawn turn
by turn.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from turngate.envs.lock import COLOURS, KEYS, LockTasks, colours_of
from turngate.types import derive_seed

FIRST = 1_000_000  # training plays the tasks before it


def show_locks(file: Path, seed: int, *, dials: int, shown: int) -> None:
    """Write the demonstrations of a seed: JSON lines, as ``warm_start.demonstrations`` reads them."""
    tasks = LockTasks(dials)
    rows = [_row(tasks, number, np.random.default_rng(derive_seed(seed, "shown", number))) for number in range(shown)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _row(tasks: LockTasks, number: int, rng: np.random.Generator) -> dict[str, object]:
    task = tasks.task("train", FIRST + number)
    colours = colours_of(task)
    present = [colour for colour in COLOURS if colour in colours]
    named = present[: int(rng.integers(1, len(present) + 1))] if number % 4 else []
    keys = {colour: KEYS[int(rng.integers(len(KEYS)))] for colour in named}
    pressed = [keys.get(colour) or KEYS[int(rng.integers(len(KEYS)))] for colour in colours]
    hint = f"{', '.join(f'{colour} takes {key}' for colour, key in keys.items())}."
    row: dict[str, object] = {"task": task.id, "actions": [f"press {key}" for key in pressed]}
    return row | {"hint": hint} if keys else row
