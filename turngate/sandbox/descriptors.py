"""Reading and writing a sandbox's files through open descriptors, so that no path is looked up twice."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from turngate.sandbox.base import Entry, SandboxFileError


def read_all(fd: int, path: str, max_bytes: int) -> bytes:
    """The rest of an open file. Raises SandboxFileError if that is more than ``max_bytes``; ``path`` is for
    messages."""
    pieces, total = [], 0
    while piece := _piece(fd, path):
        total += len(piece)
        if total > max_bytes:
            raise SandboxFileError(f"'{path}' has more than {max_bytes} bytes; read a part of it with a command")
        pieces.append(piece)
    return b"".join(pieces)


def _piece(fd: int, path: str) -> bytes:
    try:
        return os.read(fd, 1 << 20)
    except OSError as error:
        raise SandboxFileError(f"'{path}' cannot be read: {error.strerror}") from error


def write_all(fd: int, path: str, content: bytes) -> None:
    """Write all of ``content``. Raises SandboxFileError, for instance when the sandbox's disk is full."""
    view = memoryview(content)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise SandboxFileError(f"'{path}' cannot be written: {error.strerror}") from error


def listed(fd: int) -> tuple[Entry, ...]:
    """The entries of a folder by name; links are not followed."""
    found = []
    with os.scandir(fd) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # it was removed meanwhile
                found.append((entry.name, entry.stat(follow_symlinks=False)))
    return tuple(
        Entry(name=name, kind=_kind(status.st_mode), size_bytes=status.st_size)
        for name, status in sorted(found, key=lambda one: one[0])
    )


def _kind(mode: int) -> Literal["file", "folder", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def file_of(name: str, content: bytes) -> int:
    """A new file in memory, open for reading from its start; it lives until it is closed. ``name``: for messages."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    write_all(fd, name, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@contextmanager
def as_file(content: bytes) -> Iterator[int]:
    """An open file with this content, which the kernel keeps in memory: a program may read as late as it likes."""
    fd = file_of("stdin", content) if content else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
