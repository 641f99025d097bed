"""Stands between turngate and a server that it starts, so that no process of the server outlives turngate.

Run as a script by path, without the package's imports: ``server_guard.py PARENT COMMAND …``. It starts the command with
its own standard streams, and goes on until the command, the process ``PARENT`` or itself is ended. Then it kills all
processes that the command started, those in sessions of their own too: orphans among them become children of the guard.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_GRACE_S = 1.0  # for a server that was asked to end; the client of MCP kills the guard after two seconds
_PAUSE_S = 0.01


def guard(parent: int, command: list[str]) -> None:
    """Run ``command`` until it, ``parent`` or this process is ended, then kill all that is left of it.

    Raises OSError for what cannot be started.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    asked, ask = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.write(ask, b"."))
    watched = os.pidfd_open(parent)
    if os.getppid() != parent:  # it ended while this process began
        return
    server = subprocess.Popen(command, preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    running = os.pidfd_open(server.pid)
    _let_go_of_streams()
    ready, _, _ = select.select([watched, running, asked], [], [])
    if ready == [asked]:
        select.select([watched, running], [], [], _GRACE_S)
    _kill_all()


def _let_go_of_streams() -> None:
    """Close our copies of the streams, so that the client notices when the server ends."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def _kill_all() -> None:
    """Kill every descendant, again and again until there is none: one may start others meanwhile."""
    while True:
        for process in _descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_PAUSE_S)


def _descendants() -> list[int]:
    """The processes below this one, as /proc has them now."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                below.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [os.getpid()]
    while ahead:
        children = below.get(ahead.pop(), [])
        found += children
        ahead += children
    return found


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2:])
