"""Demonstrations in which look-ups are made again, as people do who forget what they have read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from turngate.config.run_config import Config
from turngate.run.environments import Environments
from turngate.types import derive_seed

SHARE = 0.5
"""Share of the demonstrations in which one look-up is made again."""
MOST = 3
"""It is made one to so many times again."""
SHOWN = 200
FIRST_SHOWN = 1_000_000  # training plays the tasks before it


def show_repeats(file: Path, seed: int, config: Config) -> None:
    """Write the demonstrations of a seed for the environment of ``config``."""
    lines = []
    with Environments(config.env) as environments:
        ((_, env),) = environments
        for number in range(SHOWN):
            task = env.tasks.task("train", FIRST_SHOWN + number)
            rng = np.random.default_rng(derive_seed(seed, "shown", task.id))
            actions = with_repeats([str(action) for action in env.oracle(task)], rng)
            lines.append(json.dumps({"task": task.id, "actions": actions}))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def with_repeats(actions: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The actions of an oracle, in ``SHARE`` of all cases with one look-up made again."""
    looks = [number for number, action in enumerate(actions) if action.startswith("run_sql ")]
    again, which, times = rng.random() < SHARE, int(rng.integers(len(looks))), 1 + int(rng.integers(MOST))
    place = looks[which]
    return [*actions[:place], *[actions[place]] * (times if again else 0), *actions[place:]]
