"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from turngate.config.run_config import Config, load
from turngate.errors import ConfigError
from turngate.run.job import Job
from turngate.run.side_runs import side_runs
from turngate.store.folder import RunFolder

TRAINED = "training"
FURTHER = {
    "search_demo.toml": ['--controls=["shuffled_credit", "random_reward"]', "--baselines.demonstrations=[240, 480]"],
    "sql_demo.toml": ["--baselines.demonstrations=[400]"],
    "tool_use_demo.toml": ["--baselines.demonstrations=[800]"],
}
"""Settings that a study adds to those of its demo, by file: what a demo has no time for."""


class Wanted(NamedTuple):
    """One run. ``kind``: "training", which makes the model that the controls of its seed begin with; the name of a
    control; or, of a supervised baseline, its number of demonstrations."""

    settings: Path
    seed: int
    kind: str
    out: Path
    updates: int | None


def config_of(settings: Path, seed: int, out: Path, updates: int | None) -> Config:
    """The settings of the training of one seed. Raises ConfigError for settings without controls."""
    changes = [f"--seed={seed}", f"--folder={out}", f"--name=seed-{seed}", *FURTHER.get(settings.name, ())]
    config = load(settings, [*changes, *([f"--train.steps={updates}"] if updates else [])])
    if not config.controls:
        raise ConfigError(f"'{settings}' has no controls, without which nothing is shown; name them: controls = […]")
    return config


def side_kinds(config: Config) -> list[str]:
    """The kinds of a training's baselines and controls."""
    return [side.config.name for side in side_runs(config, RunFolder(config.folder / config.name))]


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took."""
    torch.set_num_threads(1)
    began_s = time.perf_counter()
    config = config_of(wanted.settings, wanted.seed, wanted.out, wanted.updates)
    run, quiet = RunFolder(config.folder / config.name), Console(quiet=True)
    if wanted.kind == TRAINED:
        Job(config.model_copy(update={"controls": (), "baselines": None}), quiet).run()
    else:
        (side,) = (side for side in side_runs(config, run) if side.config.name == wanted.kind)
        Job(side.config, quiet, control=side.control, start=side.start).run()
    return f"{run.label} {wanted.kind}: {time.perf_counter() - began_s:.0f} s"
