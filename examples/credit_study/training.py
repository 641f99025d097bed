"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from examples.credit_study.settings import ENVIRONMENTS, config_of, shown_file, start_config, start_of
from turngate.errors import RunError
from turngate.run.job import Job


class Wanted(NamedTuple):
    """One run; ``rule`` None: the one that makes the model which the others of its seed begin with."""

    label: str
    rule: str | None
    seed: int
    out: Path
    updates: int | None


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took, or why it was stopped."""
    torch.set_num_threads(1)
    began_s, out = time.perf_counter(), wanted.out
    if wanted.rule is None:
        if show := ENVIRONMENTS[wanted.label].show:
            show(shown_file(wanted.label, wanted.seed, out=out), wanted.seed)
        config, control, start = start_config(wanted.label, wanted.seed, out=out), None, None
    else:
        config = config_of(wanted.label, wanted.rule, wanted.seed, out=out, updates=wanted.updates)
        control = "shuffled_credit" if wanted.rule == "shuffled" else None
        start = start_of(wanted.label, wanted.seed, out=out)
    try:
        Job(config, Console(quiet=True), control=control, start=start).run()
    except RunError as stopped:  # a rule that ruins its policy is a result, and no reason to lose the other runs
        return f"{wanted.label} {config.name} was stopped, and is left out: {stopped}"
    return f"{wanted.label} {config.name}: {time.perf_counter() - began_s:.0f} s"
