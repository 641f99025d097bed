"""The content of a folder as one digest per file: two folders with equal digests hold the same files.

A digest covers what a program sees of a file: its kind, whether it may be executed, its content. Times, owners and
inode numbers are left out, so a fork has the digests of its origin. Empty folders do not count, as in version control.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import IO, TypeAlias

from turngate.sandbox.base import BYPRODUCTS
from turngate.sandbox.trees import MAX_DEPTH

LARGE_BYTES = 64 << 20
MAX_ANSWER_BYTES = 64 << 20
"""Most bytes of the paths of one tree together, so that a program cannot fill the host's memory with long names."""

_CHUNK = 1 << 20
_DIGEST_BYTES = 16
_SPARSE = 8  # a file this many times larger than the room that it takes is mostly holes, and would take long to read
_SETTLED_NS = 50_000_000  # a file changed later than that may change again within one tick of its clock

Known: TypeAlias = dict[tuple[int, int], tuple[int, int, int, int, str]]
"""(device, inode) → (change time, modification time, size, mode, digest) of files that were read before."""


def digest_tree(folder: int, known: Known) -> dict[str, str]:
    """Path below the open ``folder`` → digest (see ``Sandbox.tree``), by path. ``known`` is read and filled.

    Raises OSError: ELOOP if the tree is deeper than ``MAX_DEPTH``, E2BIG if its paths are longer than
    ``MAX_ANSWER_BYTES`` together, EACCES if a file cannot be read.
    """
    walk = _Walk(known)
    walk.enter(folder, "", 0)
    return dict(sorted(walk.found.items()))


def digest_archive(file: IO[bytes]) -> dict[str, str]:
    """Like ``digest_tree``, for the members of a tar file. Here large files are read too."""
    found: dict[str, str] = {}
    with tarfile.open(fileobj=file) as archive:
        for member in archive:
            path = os.path.normpath(member.name)
            if member.islnk():
                found[path] = found[os.path.normpath(member.linkname)]
            elif member.issym():
                found[path] = _link(os.fsencode(member.linkname))
            elif member.isreg() and (content := archive.extractfile(member)) is not None:
                total = blake2b(digest_size=_DIGEST_BYTES)
                while piece := content.read(_CHUNK):
                    total.update(piece)
                found[path] = _kind(member.mode) + total.hexdigest()
            elif not member.isdir():
                found[path] = "o:"
    return {path: found[path] for path in sorted(found) if not BYPRODUCTS.intersection(path.split("/")[:-1])}


def pack(tree: Mapping[str, str]) -> bytes:
    """The result of ``digest_tree`` as bytes, to be sent to another process."""
    return b"".join(b"%b\0%b\0" % (os.fsencode(path), digest.encode()) for path, digest in tree.items())


def unpack(data: bytes) -> dict[str, str]:
    """The result of ``digest_tree`` from the bytes of ``pack``."""
    words = os.fsdecode(data).split("\0")
    return dict(zip(words[:-1:2], words[1::2], strict=True))


class _Walk:
    """One walk through a tree. Folders are entered through open files, so a link that appears is not followed."""

    def __init__(self, known: Known) -> None:
        self._known, self._settled_ns = known, time.time_ns() - _SETTLED_NS
        self._room = MAX_ANSWER_BYTES
        self.found: dict[str, str] = {}

    def enter(self, folder: int, prefix: str, depth: int) -> None:
        """Digest all below ``folder``, whose path ends with a slash or is empty."""
        if depth > MAX_DEPTH:
            raise OSError(errno.ELOOP, f"the folder is nested deeper than {MAX_DEPTH}", prefix)
        below = []
        found, recall, length, before = self.found, self._known.get, 0, len(self.found)
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name not in BYPRODUCTS:
                        below.append(name)
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                    known = recall((status.st_dev, status.st_ino))
                    if known is not None and known[:4] == _state(status):
                        found[prefix + name] = known[4]
                    else:
                        found[prefix + name] = self._digest(folder, name, status)
                except FileNotFoundError:
                    continue  # it was removed meanwhile
                length += len(name)
        self._room -= length + (len(found) - before) * len(prefix)
        if self._room < 0:
            raise OSError(errno.E2BIG, f"the paths in it are longer than {MAX_ANSWER_BYTES} bytes together")
        for name in below:
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                self.enter(inner, f"{prefix}{name}/", depth + 1)
            finally:
                os.close(inner)

    def _digest(self, folder: int, name: str, status: os.stat_result) -> str:
        mode = status.st_mode
        if not stat.S_ISREG(mode):
            return _link(os.fsencode(os.readlink(name, dir_fd=folder))) if stat.S_ISLNK(mode) else "o:"
        digest = _kind(mode) + _content(folder, name, status)
        if status.st_ctime_ns < self._settled_ns:
            self._known[status.st_dev, status.st_ino] = (*_state(status), digest)
        return digest


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_mode


def _content(folder: int, name: str, status: os.stat_result) -> str:
    total = blake2b(digest_size=_DIGEST_BYTES)
    size = status.st_size
    if size == 0:
        return total.hexdigest()
    if size > LARGE_BYTES or (size > _CHUNK and status.st_blocks * 512 * _SPARSE < size):
        total.update(b"%d %d" % (size, status.st_ctime_ns))
        return total.hexdigest()
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise FileNotFoundError(errno.ENOENT, "it was replaced meanwhile", name)
        left = size  # a file that grows meanwhile is not followed
        while left > 0 and (piece := os.read(fd, min(left, _CHUNK))):
            total.update(piece)
            left -= len(piece)
    finally:
        os.close(fd)
    return total.hexdigest()


def _kind(mode: int) -> str:
    return "x:" if mode & stat.S_IXUSR else "f:"


def _link(target: bytes) -> str:
    return "l:" + blake2b(target, digest_size=_DIGEST_BYTES).hexdigest()
