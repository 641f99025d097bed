"""What studies say about their numbers: means over seeds, and how they were measured."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from examples.farming.report import interval
from turngate.store import machine


def said(values: Sequence[float], *, signed: bool = False) -> str:
    """The mean over seeds with Student's 95 % interval; of a single seed its value alone."""
    found, sign = interval(values), "+" if signed else ""
    mean = f"{found.mean:{sign}.2f}"
    return f"{mean} [{found.low:{sign}.2f}, {found.high:{sign}.2f}]" if len(values) > 1 else mean


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
