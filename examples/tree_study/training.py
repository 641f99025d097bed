"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from examples.credit_study.settings import start_of
from examples.credit_study.training import Wanted as Start
from examples.credit_study.training import train as train_start
from examples.tree_study.settings import config_of
from turngate.run.job import Job


class Wanted(NamedTuple):
    """One run; ``kind`` None: the one that makes the model which the others of its seed begin with."""

    label: str
    kind: str | None
    seed: int
    out: Path
    updates: int | None


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took."""
    label, kind, seed, out, updates = wanted
    if kind is None:
        return train_start(Start(label, None, seed, out, updates))
    torch.set_num_threads(1)
    began_s, config = time.perf_counter(), config_of(label, kind, seed, out=out, updates=updates)
    Job(config, Console(quiet=True), start=start_of(label, seed, out=out)).run()
    return f"{label} {config.name}: {time.perf_counter() - began_s:.0f} s"
