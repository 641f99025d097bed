"""Temporary folders that are removed with the process that made them.

If that process is killed, the next one that makes a folder of the same kind removes them.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_YOUNG_S = 60.0  # a folder so young may not be locked yet


class Scratch:
    """A temporary folder of this process; as a context manager it gives its path.

    It is removed by ``close``, or else when the program ends. Making one also removes the folders of the same ``kind``
    whose processes were killed, which is seen by their locks being free.
    """

    def __init__(self, kind: str) -> None:
        _sweep(kind)
        self.path = Path(os.path.realpath(tempfile.mkdtemp(prefix=_prefix(kind))))
        self._held, self._owner = _lock(self.path), os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Remove the folder. Safe to repeat, and nothing in a process that was forked from its owner."""
        atexit.unregister(self.close)
        if os.getpid() != self._owner:
            return
        _remove(self.path)
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *exc: object) -> None:
        self.close()


def _prefix(kind: str) -> str:
    return f"turngate-{kind}-"


def _lock(folder: Path) -> int | None:
    """The open folder, locked as long as it is open here; None if another process holds it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _sweep(kind: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_prefix(kind)}*"):
        with suppress(OSError):  # its owner has just removed it
            status = folder.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if not is_ours or time.time() - status.st_ctime < _YOUNG_S:
                continue
            held = _lock(folder)
            if held is not None:
                _remove(folder)
                os.close(held)


def _remove(folder: Path) -> None:
    """Remove a folder, also with folders in it that are not writable, such as copies of a user's."""
    for path, below, _files in os.walk(folder):
        for name in below:
            if not os.path.islink(inner := os.path.join(path, name)):
                with suppress(OSError):  # it has just gone
                    os.chmod(inner, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
