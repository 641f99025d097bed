"""The current folder of an environment: code of a user may call ``os.chdir``, and relative paths of a run must still
lead to where they led before.

A thread that plays environments has a current folder apart from that of the process where the system allows it (Linux:
``unshare(CLONE_FS)``, which needs no privilege, but which some containers forbid). Elsewhere the whole process is in
the environment's folder during its calls and returns after each; a warning says so once, because other threads resolve
relative paths in that folder meanwhile.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_log = logging.getLogger(__name__)
_CLONE_FS = 0x200
_thread = threading.local()
SHARED = (
    "an environment changed the current folder to '%s', and this system cannot give its thread a folder of its own: "
    "while its calls last, other threads of the run may look up relative paths there. Use absolute paths in the "
    'config, or env.isolation = "process"'
)


def part_from_process() -> None:
    """Give the calling thread a current folder of its own, if the system can."""
    _thread.shares = not _unshared()


def _unshared() -> bool:
    with suppress(AttributeError, OSError, TypeError):  # a system without libc, or without unshare in it
        return bool(ctypes.CDLL(None).unshare(_CLONE_FS) == 0)
    return False


class OwnFolder:
    """The current folder of one environment's code: at first that of its pool, later the one that it last changed
    to."""

    def __init__(self) -> None:
        self._home = os.getcwd()
        self._folder: str | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The folder of the environment inside of the block, and the one from before after it."""
        if self._folder is not None:
            with suppress(OSError):  # it is gone
                os.chdir(self._folder)
        try:
            yield
        finally:
            now = _current()
            if now != self._home:
                self._folder = now
                _tell_if_shared(now)
                with suppress(OSError):
                    os.chdir(self._home)


_lock = threading.Lock()
_told = threading.Event()


def _tell_if_shared(folder: str | None) -> None:
    """Say once in a process that a thread without a folder of its own went to ``folder``."""
    if getattr(_thread, "shares", False):
        with _lock:
            is_first = not _told.is_set()
            _told.set()
        if is_first:
            _log.warning(SHARED, folder)


def _current() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
