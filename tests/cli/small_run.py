"""A run on the toy environment that takes seconds, and the command line in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.forked_commands import forks
from tests.helpers.tiny_run import tiny_model

CONFIG = (
    """
name = "lock"
folder = "runs"

[env]
id = "turngate/Lock-v1"
"""
    + tiny_model(episodes=24, epochs=1)
    + """
[train]
steps = {steps}
tasks_per_step = 3
group_size = 4

[eval]
tasks = 4
"""
)
COMMAND = [sys.executable, "-m", "turngate"]


def write_config(folder: Path, *, steps: int = 2, before: str = "", after: str = "") -> Path:
    """``lock.toml`` in ``folder``; the run will be ``runs/lock`` there."""
    path = folder / "lock.toml"
    path.write_text(before + CONFIG.format(steps=steps) + after)
    return path


def variables(**more: str) -> dict[str, str]:
    """The environment of a command: without a width, so that lines are as where output is piped."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "TERM")}
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **more}


def turngate_in(folder: Path, *arguments: object, code: int = 0) -> "subprocess.CompletedProcess[str]":
    """What the command printed, run in ``folder`` in a process of its own; its exit code is asserted."""
    done = forks().run(*arguments, cwd=folder, env=variables())
    assert done.returncode == code, done.stdout + done.stderr
    return done


def turngate_anew(
    folder: Path, *arguments: object, command: Sequence[str] = COMMAND, code: int = 0, **more: str
) -> "subprocess.CompletedProcess[str]":
    """The same in a new interpreter, with further variables: for what is said or chosen while all is imported."""
    whole = [*command, *map(str, arguments)]
    done = subprocess.run(whole, cwd=folder, env=variables(**more), capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done
