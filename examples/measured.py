"""What studies say about their numbers: means over seeds, and how they were measured."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from examples.intervals import TIE, interval
from turngate.report.episodes import PlayedEvaluation, sampling_of
from turngate.store import machine


def said(
    values: Sequence[float], *, signed: bool = False, low: float = -inf, high: float = inf, trials: int = 0
) -> str:
    """The mean over seeds with its 95 % interval (see ``intervals.interval``); of a single seed its value alone.

    Where all seeds are equal, and no ``trials`` say how much that is worth, it says so in place of an interval.
    """
    found, sign = interval(values, low=low, high=high, trials=trials), "+" if signed else ""
    mean = f"{found.mean:{sign}.2f}"
    if len(values) == 1:
        return mean
    if found.high - found.low < TIE:
        return f"{mean} (every seed)"
    return f"{mean} [{found.low:{sign}.2f}, {found.high:{sign}.2f}]"


def said_rate(rates: Sequence[float], trials: int = 0) -> str:
    """The same of success rates; ``trials``: the number of episodes behind all of them."""
    return said(rates, low=0, high=1, trials=trials)


def said_difference(differences: Sequence[float]) -> str:
    """The same of differences of rates, seed by seed."""
    return said(differences, signed=True, low=-1, high=1)


def trials(played: Iterable[PlayedEvaluation], split: str, sampling: str, phase: str) -> int:
    """Number of usable episodes in all evaluations of one kind."""
    wanted = (split, sampling, phase)
    return sum(
        len(one.evaluation.success_B)
        for one in played
        if (one.evaluation.split, sampling_of(one.evaluation), one.phase) == wanted
    )


@dataclass(frozen=True)
class ResultFiles:
    """Where a study writes its numbers and its figure: into ``data/`` and ``figures/`` of a folder, which are made."""

    folder: Path
    name: str

    def __post_init__(self) -> None:
        for file in (self.csv, self.figure):
            file.parent.mkdir(parents=True, exist_ok=True)

    @property
    def csv(self) -> Path:
        """Every number."""
        return self.folder / "data" / f"{self.name}.csv"

    @property
    def episodes(self) -> Path:
        """Every evaluated episode."""
        return self.folder / "data" / f"{self.name}_episodes.csv"

    @property
    def figure(self) -> Path:
        """The curves."""
        return self.folder / "figures" / f"{self.name}.png"


def about(study: str, arguments: Sequence[str], times_s: Sequence[float], wall_s: float, at: str, load: float) -> str:
    """How a study was measured: its command, commit ``at``, time and machine.

    ``times_s``: seconds of updates of each run; ``wall_s``: of this command, which does not repeat complete runs;
    ``load``: the load average before it.
    """
    known = machine()
    packages = known["packages"]
    assert isinstance(packages, dict)
    command = " ".join([f"python -m examples.{study}", *arguments])
    return (
        f"`{command}`, commit {at}: {len(times_s)} runs, {sum(times_s) / 60:.0f} minutes of updates in all; this "
        f"command took {wall_s / 60:.0f} minutes by the clock.\nPython {known['python']}, torch {packages['torch']}, "
        f"{known['platform']}, {os.cpu_count()} cores with a load average of {load:.1f} beforehand, one thread a run."
    )


def commit() -> str:
    """The version of the code, as git names it; "-dirty" where files were changed since."""
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown (no git here)"
