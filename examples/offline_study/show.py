"""Demonstrations of a lock whose demonstrator confuses one colour."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from turngate.envs.lock import COLOURS, KEYS, LockTasks, colours_of, key_of
from turngate.types import derive_seed

FIRST = 1_000_000  # training plays the tasks before it
LOCKS = 400
KNOWN, CONFUSED = (0.85, 0.05), (0.35, 0.5)
"""How often the right key is pressed, and how often the key that is most often taken for it: of the colours that the
demonstrator knows, and of the one that it confuses. The other two keys share the rest."""


def show_locks(file: Path, seed: int, tasks: LockTasks) -> None:
    """Write the demonstrations of a seed: JSON lines, as ``warm_start.demonstrations`` reads them.

    Which colour is confused, and what is taken for its key, is drawn once for the seed. Every key is drawn anew.
    """
    rng = np.random.default_rng(derive_seed(seed, "shown"))
    confused = COLOURS[int(rng.integers(len(COLOURS)))]
    order = {colour: _keys(colour, rng) for colour in COLOURS}
    rows = []
    for number in range(LOCKS):
        task = tasks.task("train", FIRST + number)
        pressed = [_drawn(order[colour], CONFUSED if colour == confused else KNOWN, rng) for colour in colours_of(task)]
        rows.append({"task": task.id, "actions": [f"press {key}" for key in pressed]})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _keys(colour: str, rng: np.random.Generator) -> list[str]:
    """The right key, then the others in an order that is drawn."""
    others = [key for key in KEYS if key != key_of(colour)]
    return [key_of(colour), *(others[index] for index in rng.permutation(len(others)))]


def _drawn(keys: list[str], often: tuple[float, float], rng: np.random.Generator) -> str:
    rest = (1 - sum(often)) / (len(keys) - 2)
    return keys[int(rng.choice(len(keys), p=[*often, *[rest] * (len(keys) - 2)]))]
