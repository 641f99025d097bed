"""turngate's side of ``benchmarks/trl.py``: a run like any other. Prints a JSON line per training step.

Nothing is left out that a run does: episodes are stored, the sampler is compared with the learner after each update,
metrics are written. Groups whose episodes were all paid alike are learned from too (``filters = []``), because TRL
leaves none out, although they change nothing; by default turngate would drop them and be faster.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from benchmarks.trl_world import WORLDS
from turngate.config.run_config import Config
from turngate.run.environments import Environments
from turngate.run.job import Job
from turngate.sinks import Opening, Sink, SinkPart
from turngate.types import derive_seed


class StepTimes(SinkPart):
    """Prints how long each step took."""

    type: Literal["step_times"] = "step_times"

    def open(self, opening: Opening) -> Sink:
        """See ``Times``."""
        return Times()


class Times:
    """From the end of one step to the end of the next."""

    def __init__(self) -> None:
        self._since = time.perf_counter(), time.process_time()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Print the line of a step."""
        now = time.perf_counter(), time.process_time()
        line = {
            "wall_s": now[0] - self._since[0],
            "cpu_s": now[1] - self._since[1],
            "rollout_s": metrics["time/collect_s"] + metrics["time/reward_s"],
            "learn_s": metrics["time/learn_s"],
            "turns_per_episode": metrics["train/turns"],
            "sampled_tokens": metrics["train/sampled_tokens"],
            "success": metrics["train/success"],
        }
        print(json.dumps(line), flush=True)
        self._since = time.perf_counter(), time.process_time()

    def close(self) -> None:
        """Nothing to close."""


def settings(world: str, model: str, folder: Path, *, steps: int, tasks: int, group: int, device: str) -> Config:
    """The run."""
    sizes = WORLDS[world]
    learner: dict[str, Any] = {"lr": 1e-6}
    if device == "cuda":
        learner["tolerance"] = 1.0  # both compute in bfloat16
    return Config.model_validate(
        {
            "name": "ours",
            "folder": folder,
            "model": model,
            "env": sizes.env,
            "policy": {"turn_tokens": sizes.turn_tokens, "context": sizes.context, "concurrency": tasks * group},
            "learner": learner,
            "train": {
                "steps": steps,
                "tasks_per_step": tasks,
                "group_size": group,
                "filters": [],
                "checkpoint_every": steps,
            },
            "eval": {"tasks": 1},
            "sink": [{"type": "benchmarks.trl_ours:StepTimes"}],
        }
    )


def tasks_of(config: Config) -> list[str]:
    """Ids of the tasks that the run plays, in order."""
    with Environments(config.env) as environments:
        supply = environments.supply(
            per_step=config.train.tasks_per_step,
            group_size=config.train.group_size,
            seed=derive_seed(config.seed, "tasks"),
            first=environments.split(0),
        )
        return [task.id for step in range(1, config.train.steps + 1) for task in supply.in_order(step)]


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--world", choices=list(WORLDS), required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--device", required=True)
    asked = parser.parse_args()
    sizes = {"steps": asked.steps, "tasks": asked.tasks, "group": asked.group, "device": asked.device}
    config = settings(asked.world, asked.model, asked.folder, **sizes)
    Job(config, Console(stderr=True)).run()
