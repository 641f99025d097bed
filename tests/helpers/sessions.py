"""A command in a session of its own, so that whatever it leaves behind is seen, and ended."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers.forked_commands import Forked

ENDS_S = 10.0
"""How long helpers of the standard library may take to see that their owner is gone."""


def in_own_session(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 240.0
) -> "subprocess.CompletedProcess[str]":
    """Its exit code and what it printed. Asserts that no process of its session goes on after it."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    return to_its_end(process, timeout_s=timeout_s)


def to_its_end(process: "subprocess.Popen[str] | Forked", *, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """The same for a command that was started in a session of its own."""
    try:
        out, errors = process.communicate(timeout=timeout_s)
        until = time.monotonic() + ENDS_S
        while (left := running(process.pid)) and time.monotonic() < until:
            time.sleep(0.02)
        assert left == [], left
        assert process.returncode is not None
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def running(session: int) -> list[str]:
    """The command lines of the processes of a session; those that ended and wait to be collected are none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, of_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of_session) == session and state not in "ZX":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found
