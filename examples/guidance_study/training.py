"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from examples.guidance_study.settings import DIALS, SHOWN, config_of, shown_file, start_config, start_of
from examples.guidance_study.show import show_locks
from turngate.run.job import Job


class Wanted(NamedTuple):
    """One run; ``kind`` None: the one that makes the model which the others of its seed begin with."""

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
        show_locks(shown_file(seed, out=wanted.out), seed, dials=DIALS, shown=SHOWN)
        config, start = start_config(seed, **places), None
    else:
        config, start = config_of(wanted.kind, seed, **places, updates=wanted.updates), start_of(seed, out=wanted.out)
    Job(config, Console(quiet=True), start=start).run()
    return f"{config.name}: {time.perf_counter() - began_s:.0f} s"
