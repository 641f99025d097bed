"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from examples.sql_gates.settings import PAYMENTS, config_of, shown_file, start_config, start_of
from examples.sql_gates.shown import show_repeats
from turngate.run.job import Job


class Wanted(NamedTuple):
    """One run; ``kind`` None: the one that makes the model which the others of its seed begin with."""

    kind: str | None
    seed: int
    settings: Path
    out: Path
    updates: int | None
    repeated: bool


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took."""
    torch.set_num_threads(1)
    began_s, seed = time.perf_counter(), wanted.seed
    same = {"settings": wanted.settings, "out": wanted.out, "repeated": wanted.repeated}
    if wanted.kind is None:
        config, control, start = start_config(seed, **same), None, None
        if wanted.repeated:
            show_repeats(shown_file(seed, out=wanted.out), seed, config)
    else:
        config = config_of(wanted.kind, seed, **same, updates=wanted.updates)
        control, start = PAYMENTS[wanted.kind].control, start_of(seed, out=wanted.out)
    Job(config, Console(quiet=True), control=control, start=start).run()
    return f"{config.name}: {time.perf_counter() - began_s:.0f} s"
