"""Private copies of databases in memory. Each copy is loaded from one database image and is reused only while it is
unchanged.

Why one image only: ``sqlite3_deserialize`` on a connection that has been used frees the schema of its ``main``
database. Eponymous virtual tables (``json_each``, ``json_tree``, ``dbstat``, ``sqlite_stmt``, every ``pragma_*``)
belong to the connection instead, are made at their first use and keep a pointer to the schema of that moment; so a
query that mentions one again after a second image, or the same one again, makes SQLite read freed memory (seen: SIGSEGV
in 3.40.1). Statements that were compiled before have the same trouble with a virtual table of the image (full text,
R-tree).

Why reused: opening a connection, hardening it and compiling the queries again takes several times as long as an episode
of short queries. A copy that is given back is compared with its image byte for byte; one that differs, or is in a
transaction, is closed, so the next episode starts from the image whatever happened in the one before.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from threading import Lock
from urllib.parse import quote as quote_url

from turngate.envs.sql.engine.connection import FINE_TICK, TICK, hardened
from turngate.envs.sql.engine.guard import Guard

COPY_BYTES = 256 * 2**10  # memory of a connection besides two images: schema, page cache, compiled statements
ROOM_BYTES = 256 * 2**20  # of all unused copies
MOST_COLUMNS = 2000  # of a table, while a schema is read: SQLite's own limit


class OwnConnection:
    """One guarded connection to a database of its own. ``image`` is None for a file that is read where it lies."""

    def __init__(self, connection: sqlite3.Connection, guard: Guard, image: bytes | None) -> None:
        self.connection, self.guard, self.image = connection, guard, image

    @classmethod
    def of_file(cls, path: str, *, alone: bool = False) -> OwnConnection:
        """A file that is too large to copy, opened as immutable."""
        guard = Guard(alone=alone)
        return cls._guarded(hardened(f"file:{quote_url(path)}?mode=ro&immutable=1", guard.tick), guard, None)

    @classmethod
    def of_image(cls, image: bytes, *, alone: bool = False) -> OwnConnection:
        """A fresh copy of ``image``. Raises sqlite3.Error for one that cannot be loaded."""
        guard = Guard(alone=alone)
        connection = hardened(":memory:", guard.tick)
        try:
            connection.deserialize(image)
        except BaseException:
            connection.close()
            raise
        return cls._guarded(connection, guard, image)

    @classmethod
    def _guarded(cls, connection: sqlite3.Connection, guard: Guard, image: bytes | None) -> OwnConnection:
        copy = cls(connection, guard, image)
        copy.watch()
        return copy

    def watch(self) -> None:
        """Put the guard in place. Statements compiled before, under another authorizer, are compiled again."""
        self.connection.set_authorizer(self.guard.authorize)

    def look_often(self, often: bool) -> None:
        """Whether to look at clock and memory at short intervals, which costs time."""
        self.connection.set_progress_handler(self.guard.tick, FINE_TICK if often else TICK)

    def is_as_new(self) -> bool:
        """Whether it still equals its image."""
        try:
            return not self.connection.in_transaction and self.connection.serialize() == self.image
        except (sqlite3.Error, MemoryError):
            return False

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Copies:
    """The unused copies; the least recently used are closed when there are too many.

    Safe across threads. A copy belongs to the caller that took it until it is given back.
    """

    def __init__(self, room: int) -> None:
        self.room, self.weight = room, 0
        self._kept: OrderedDict[bytes, list[OwnConnection]] = OrderedDict()
        self._lock = Lock()

    def take(self, image: bytes) -> OwnConnection:
        """A copy of ``image``, kept or fresh. Raises sqlite3.Error for an image that cannot be loaded."""
        with self._lock:
            kept = self._kept.get(image)
            if kept:
                copy = kept.pop()
                self.weight -= _weight(image)
                if not kept:
                    del self._kept[image]
                copy.connection.text_factory = str
                return copy
        return OwnConnection.of_image(image)

    def give(self, copy: OwnConnection) -> None:
        """Keep a copy for the next one, or close it if it is no copy of its image any more, or of none."""
        if copy.image is None or not copy.is_as_new():
            copy.close()
            return
        closing: list[OwnConnection] = []
        with self._lock:
            self._kept.setdefault(copy.image, []).append(copy)
            self._kept.move_to_end(copy.image)
            self.weight += _weight(copy.image)
            while self.weight > self.room:
                oldest, kept = next(iter(self._kept.items()))
                closing.append(kept.pop(0))
                self.weight -= _weight(oldest)
                if not kept:
                    del self._kept[oldest]
        for old in closing:
            old.close()

    def close(self) -> None:
        """Close all that are kept."""
        with self._lock:
            kept, self.weight = list(self._kept.values()), 0
            self._kept.clear()
        for copies in kept:
            for copy in copies:
                copy.close()


def _weight(image: bytes) -> int:
    return COPY_BYTES + 2 * len(image)
