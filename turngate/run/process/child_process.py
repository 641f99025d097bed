"""A process of its own for a run: it prints into a file, and ends when this process ends, however that happens.

It holds one end of a pipe whose other end only this process has. When the pipe closes, it ends in order, as after
SIGTERM, and is killed if that takes longer than ``END_S``.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from rich.console import Console

from turngate.run.process.signals import Stopped, stopping_in_order

END_S = 15.0
"""How long a process may take to close what it opened, before it is killed."""
_WATCHING_S = 5.0  # more than that, and it cannot even watch the pipe


class OwnProcess:
    """A fresh Python that calls ``work`` with a console; all that it and its libraries print goes into ``log``.

    ``work`` is pickled: a function at the top level of a module, or a ``functools.partial`` of one.
    """

    def __init__(self, work: Callable[[Console], None], log: Path) -> None:
        context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
        theirs, self._alive = context.Pipe(duplex=False)
        self._log = log
        # no daemon: those may not start processes, as environments with isolation do
        self._process = context.Process(target=_serve, args=(theirs, work, log), name="turngate-run")
        self._process.start()
        theirs.close()

    def wait(self) -> str:
        """Wait until it has ended; returns why it failed, "" if it did not."""
        wait([self._process.sentinel])
        self._process.join()  # its files are closed a moment before it can be collected, with its exit code
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        return _last_line(self._log) or "it said nothing" if code else ""

    def end(self) -> None:
        """Tell it to end in order; does not wait."""
        self._alive.close()

    def bury(self) -> None:
        """Wait until it has ended after ``end``, or kill it."""
        if not wait([self._process.sentinel], timeout=END_S + _WATCHING_S):
            self._process.kill()
        self._process.join()


def _serve(alive: Connection, work: Callable[[Console], None], log: Path) -> None:
    """The main function of the process. An exception leaves its traceback in the log."""
    os.setsid()  # an interrupt at the terminal reaches the other process only, which ends this one
    with log.open("w", encoding="utf-8") as file:
        for number in (1, 2):  # also what C libraries print
            os.dup2(file.fileno(), number)
    try:
        with stopping_in_order():
            threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
            work(Console(soft_wrap=True))
    except Stopped as stop:
        sys.exit(str(stop))


def _end_with(alive: Connection) -> None:
    """Wait until the pipe closes, then end this process and all of its group."""
    with suppress(EOFError, OSError):
        alive.recv_bytes()
    # to the main thread, so that it wakes from any wait
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(END_S)
    os.killpg(0, signal.SIGKILL)


def _last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
