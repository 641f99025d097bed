"""The lock of a run's folder: one process at a time works on a run."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.errors import ConfigError
from turngate.store.folder import RunFolder


@contextmanager
def locked_run(run: RunFolder) -> Iterator[None]:
    """Make the folder of a run and lock it; the system frees the lock when the process dies.

    Raises ConfigError for a folder that cannot be written, and for one that another process has locked, which it names.
    """
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        file = run.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the run's folder '{run.path}' cannot be written: {error.strerror}; choose another --folder or --name"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigError(
                f"{file.read().strip() or 'another process'} is working on '{run.path}'; wait until it has ended, or "
                "choose another --name"
            ) from None
        file.truncate(0)  # a process that was killed has left its name here
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
