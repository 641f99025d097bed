"""Files of a run as objects: what changed is uploaded, what is named is downloaded and compared with its SHA-256."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from turngate.errors import StoreError
from turngate.store.folder import RunFolder
from turngate.store.remote.manifest import OBJECTS, Manifest, StoredFile, newest_manifest
from turngate.store.remote.object_store import ObjectStore

PART_BYTES = 8 << 20
"""Of a file that grows at its end only the last part is uploaded again."""
AT_ONCE = 8
"""Objects that are under way, and in memory, at a time."""


class PartGone(Exception):
    """An object that a manifest names is not there; the message says which, and of which file."""


def with_newest(store: ObjectStore, use: Callable[[Manifest], None]) -> Manifest:
    """Call ``use`` with the newest state, and again where a writer replaced that state meanwhile; returns the last one.

    Raises StoreError, OSError.
    """
    newest = newest_manifest(store)
    while True:
        try:
            use(newest)
        except PartGone as gone:
            before, newest = newest, newest_manifest(store)
            if before == newest:
                raise StoreError(str(gone)) from gone
        else:
            return newest


def object_name(part: str) -> str:
    """The object of a part with this SHA-256."""
    return f"{OBJECTS}/{part}"


@dataclass
class Uploads:
    """The files of a run's folder. It remembers those that it has read, by inode, size and time of change."""

    store: ObjectStore
    run: RunFolder
    _read: dict[str, tuple[tuple[int, int, int], StoredFile]] = field(default_factory=dict)

    def upload(self, there: Collection[str]) -> dict[str, StoredFile]:
        """Write the parts that are not in ``there``, the SHA-256 of those that the store has; returns all files.

        A file that is removed meanwhile is left out. Raises OSError.
        """
        files: dict[str, StoredFile] = {}
        waiting: dict[str, bytes] = {}
        sent = set(there)
        for path in self.run.lasting_files():
            name = path.relative_to(self.run.path).as_posix()
            try:
                about = path.stat()
                mark = (about.st_ino, about.st_size, about.st_mtime_ns)
                known = self._read.get(name)
                if known is not None and known[0] == mark and sent.issuperset(known[1].parts):
                    files[name] = known[1]
                    continue
                size, parts = 0, list[str]()
                with _reading(path) as file:
                    while (data := file.read(PART_BYTES)) or not parts:
                        size += len(data)
                        parts.append(hashlib.sha256(data).hexdigest())
                        if parts[-1] not in sent:
                            sent.add(parts[-1])
                            waiting[object_name(parts[-1])] = data
                            self._send(waiting, least=AT_ONCE)
            except FileNotFoundError:
                continue
            files[name] = StoredFile(size=size, parts=tuple(parts))
            self._read[name] = mark, files[name]
        self._send(waiting, least=1)
        return files

    def _send(self, waiting: dict[str, bytes], *, least: int) -> None:
        if len(waiting) >= least:
            self.store.write(waiting)
            waiting.clear()


def _reading(path: Path) -> BinaryIO:
    """The file, opened; of a database what its last transaction left, because a thread may write to it now."""
    if path.suffix != ".sqlite":
        return path.open("rb")
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            return BytesIO(connection.serialize())
    except sqlite3.Error:  # it is damaged, or none of SQLite's
        return path.open("rb")


def download(store: ObjectStore, files: Mapping[str, StoredFile], folder: Path) -> None:
    """Write these files into ``folder``; each appears as a whole.

    Raises PartGone for an object that is gone, as where the run was changed meanwhile, StoreError for one with another
    SHA-256 than the manifest says, and OSError.
    """
    wanted = [(name, number, part) for name, file in files.items() for number, part in enumerate(file.parts)]
    for start in range(0, len(wanted), AT_ONCE):
        batch = wanted[start : start + AT_ONCE]
        parts = list(dict.fromkeys(part for _, _, part in batch))  # equal files have the same objects
        found = dict(zip(parts, store.read([object_name(part) for part in parts]), strict=True))
        for name, number, part in batch:
            data, told = found[part], f"'{store.address}/{object_name(part)}', which is part of '{name}',"
            if data is None:
                raise PartGone(f"{told} is missing; restore it from a backup, or begin another run with another --name")
            if hashlib.sha256(data).hexdigest() != part:
                raise StoreError(
                    f"{told} is not what was written (its SHA-256 differs); restore it from a backup, or begin another "
                    "run with another --name"
                )
            _append(folder / name, data, number, is_last=number + 1 == len(files[name].parts))


def _append(final: Path, data: bytes, number: int, *, is_last: bool) -> None:
    """Write a part of a file under a temporary name; rename it when the last one is on disk."""
    temporary = final.with_name(f".{final.name}.tmp")
    if number == 0:
        final.parent.mkdir(parents=True, exist_ok=True)
    with temporary.open("ab" if number else "wb") as file:
        file.write(data)
        if is_last:
            file.flush()
            os.fsync(file.fileno())
    if is_last:
        temporary.replace(final)
