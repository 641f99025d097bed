"""The runs of the study. Other processes import ``train`` from here."""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
from rich.console import Console

from examples.offline_study.settings import ENVIRONMENTS, OFFLINE, ON_TOP, START, Wanted, config_of
from examples.offline_study.show import show_locks
from turngate.envs.lock import LockTasks
from turngate.errors import ConfigError
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.validation_steps import read_steps


def train(wanted: Wanted) -> str:
    """Do one run, or what is left of it; says which, and how long that took."""
    torch.set_num_threads(1)
    began_s, config = time.perf_counter(), config_of(wanted)
    if wanted.arm == START and ENVIRONMENTS[wanted.place].shows:
        with Environments(config.env) as environments:
            ((_, env),) = environments
            assert isinstance(env.tasks, LockTasks)
            show_locks(wanted.shown, wanted.seed, env.tasks)
    start = None if wanted.arm in (START, ON_TOP) else wanted.beside(START)
    Job(config, Console(quiet=True), start=start).run()
    return f"{wanted.place} {wanted.folder.path.name}: {time.perf_counter() - began_s:.0f} s"


def validated(folder: RunFolder) -> float:
    """Success on validation tasks after the last update, the mean of sampled and greedy. Raises ConfigError."""
    steps = read_steps(folder)
    if steps is None or not steps.tried:
        raise ConfigError(f"'{folder.path}' was not validated, so nothing can be chosen by it")
    return steps.tried[-1].rate("mean")


def best_arm(folders: Mapping[str, RunFolder]) -> str:
    """The way to learn from the store that did best on validation tasks, which are not the evaluated ones; of equal
    ones the first in the order of ``OFFLINE``."""
    return max((arm for arm in OFFLINE if arm in folders), key=lambda arm: validated(folders[arm]))
