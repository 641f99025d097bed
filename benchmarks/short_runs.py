"""Short trainings of the demo, each by ``turngate train`` in a process of its own: what several benchmarks time."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import tomli_w

from turngate.sinks import Opening, SinkPart
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

DEMO = Path("examples/sql_demo.toml")
FIRST = 1  # steps at the beginning that are not counted: caches are cold, and nothing was played ahead yet


class StepEnds(SinkPart):
    """Writes down when each step ended, into ``step_ends.json`` of the run."""

    def open(self, opening: Opening) -> StepClock:
        """See ``StepClock``."""
        return StepClock(opening.run.path / "step_ends.json")


class StepClock:
    """The ends of the steps so far, in seconds of the monotonic clock."""

    def __init__(self, path: Path) -> None:
        self._path, self._ends = path, [time.monotonic()]

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add one."""
        self._ends.append(time.monotonic())
        self._path.write_text(json.dumps(self._ends))

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """The steps of one run: seconds of each that counts, and all metrics but the times."""

    steps_s: list[float]
    rows: list[dict[str, float]]

    @property
    def median_s(self) -> float:
        """Median seconds of a step."""
        return statistics.median(self.steps_s)

    @property
    def mean_s(self) -> float:
        """Mean seconds of a step: what a run of many of them costs."""
        return statistics.fmean(self.steps_s)


def warm_started(folder: Path, *, episodes: int, epochs: int) -> Path:
    """The demo's model after a warm start of so many demonstrations and passes."""
    data = _demo(folder, "start")
    data["warm_start"] = {**data["warm_start"], "episodes": episodes, "epochs": epochs}
    data["train"] = {"steps": 0}
    _train(folder, data, {})
    return RunFolder(folder / "start").warm_start


def timed(
    folder: Path, name: str, model: Path, *, steps: int, train: Mapping[str, Any], environ: Mapping[str, str]
) -> Timed:
    """A run of ``FIRST + steps`` steps from ``model``, with these keys of [train] and variables of the environment."""
    data = _demo(folder, name)
    del data["warm_start"]
    data |= {"model": str(model), "sink": [{"type": "benchmarks.short_runs:StepEnds"}]}
    data["train"] = {**data["train"], "steps": FIRST + steps, "checkpoint_every": FIRST + steps, **train}
    _train(folder, data, environ)
    run = RunFolder(folder / name)
    ends = json.loads((run.path / "step_ends.json").read_text())[FIRST:]
    measured = ("time/", "busy/", "memory/")
    rows = [{k: v for k, v in row.items() if not k.startswith(measured)} for row in read_metrics(run.metrics)]
    return Timed(steps_s=[b - a for a, b in pairwise(ends)], rows=rows)


def conditions() -> dict[str, Any]:
    """Machine, versions and load: what a timing is worth nothing without."""
    return {
        "machine": {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "load": os.getloadavg(),
    }


def _demo(folder: Path, name: str) -> dict[str, Any]:
    """The demo's settings without controls, baselines and validation, with one task to evaluate."""
    data = tomllib.loads(DEMO.read_text(encoding="utf-8"))
    for key in ("controls", "baselines"):
        del data[key]
    del data["warm_start"]["validation"]
    return {**data, "name": name, "folder": str(folder), "eval": {**data["eval"], "tasks": 1}}


def _train(folder: Path, data: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Raises RuntimeError, with the end of what was printed, if it fails."""
    config = folder / f"{data['name']}.toml"
    config.write_text(tomli_w.dumps(dict(data)))
    command = [sys.executable, "-m", "turngate", "train", str(config)]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(command, env={**own, **environ}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}")
