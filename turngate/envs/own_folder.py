"""The current folder of an environment: code of a user may call ``os.chdir``, and relative paths of a run must still
lead to where they led before.

A thread that plays environments has a current folder apart from that of the process where the system allows it (Linux:
``unshare(CLONE_FS)``, which needs no privilege, but which some containers forbid). Elsewhere the folder of the whole
process is the environment's as long as one of its calls takes, and is put back after it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CLONE_FS = 0x200


def part_from_process() -> None:
    """Give the calling thread a current folder of its own, if the system can."""
    with suppress(AttributeError, OSError, TypeError):  # a system without libc, or without unshare in it
        ctypes.CDLL(None).unshare(_CLONE_FS)


class OwnFolder:
    """Where the code of one environment is: at first where its pool was made, later where it last went."""

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
                with suppress(OSError):
                    os.chdir(self._home)


def _current() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None
