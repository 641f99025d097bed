"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from examples.guidance_study.settings import ENVIRONMENTS, config_of, shown_file, start_config, start_of
from turngate.run.job import Job


class Wanted(NamedTuple):
    """One run; ``kind`` None: the one that makes the model which the others of its seed begin with."""

    place: str
    kind: str | None
    seed: int
    settings: Path
    out: Path
    updates: int | None


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took."""
    torch.set_num_threads(1)
    began_s, seed, places = time.perf_counter(), wanted.seed, {"settings": wanted.settings, "out": wanted.out}
    if wanted.kind is None:
        config, start = start_config(wanted.place, seed, **places), None
        ENVIRONMENTS[wanted.place].show(shown_file(seed, out=wanted.out), seed, config)
    else:
        config = config_of(wanted.place, wanted.kind, seed, **places, updates=wanted.updates)
        start = start_of(seed, out=wanted.out)
    Job(config, Console(quiet=True), start=start).run()
    return f"{wanted.place} {config.name}: {time.perf_counter() - began_s:.0f} s"
