"""A SQLite database that an agent may question and nothing else: fresh per episode, read-only, bounded in every way.

Three walls stand between a query and the host. The connection reads a private copy in memory and is ``query_only``; an
authorizer lets through nothing but SELECT, reads and functions, and notes what it refused; limits on the size of a
value, of a statement and of kept results, with a progress handler that watches clock and memory, stop every query that
takes too much. Every failure inside a query is a ``QueryResult`` with an error, never an exception.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from turngate.envs.cache import Cache
from turngate.envs.sql.engine.copies import MOST_COLUMNS, ROOM_BYTES, Copies, OwnConnection
from turngate.envs.sql.engine.guard import SLOW_FUNCTIONS, Guard
from turngate.envs.sql.engine.schema import Schema, read_schema
from turngate.errors import EnvError

Cell: TypeAlias = None | int | float | str | bytes
Row: TypeAlias = tuple[Cell, ...]

DEADLINE_S = 2.0
"""Longest run of a query in seconds, unless the environment sets another."""
IN_MEMORY_BYTES = 32 * 2**20  # files up to this size are copied; larger ones are opened immutable
KEEP_ROWS = 10_000  # rows of a result that are kept; beyond, they are only counted
KEEP_CHARS = 16 * 2**20  # the same bound in characters and bytes of their cells
SCHEMA_DEADLINE_S = 10.0  # reading the schema counts every row of every table, once per database
SQL_CHARS = 20_000  # longest statement
FIRST_ROWS = 16  # rows fetched before their size is looked at
SLOW_CALLS = 40  # of functions that cannot be interrupted, in the program that a query is compiled to
LEAST_COLUMNS = 100  # a result may be this wide, or as wide as the widest table

_images: Cache[tuple[str, int, int], bytes] = Cache(room=256 * 2**20)
_copies = Copies(ROOM_BYTES)
_schemas: Cache[str, Schema] = Cache(room=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """The result of a query. ``rows`` are all rows if ``complete``, else the first ones.

    ``count`` is the true number of rows, None when it could not be found before the deadline. ``error`` is empty when
    the query ran; then ``refused`` (a write or an escape was attempted) and ``timed_out`` are False.
    """

    columns: tuple[str, ...] = ()
    rows: Sequence[Row] = ()
    count: int | None = None
    complete: bool = False
    error: str = ""
    refused: bool = False
    timed_out: bool = False


class Database:
    """One agent's view of one database. ``load`` puts the next one in its place, as a fresh copy.

    Not for use by two threads at the same time, but a different thread may take over between calls.
    """

    def __init__(self, *, deadline_s: float = 2.0) -> None:
        self.deadline_s = deadline_s
        self.key = ""
        self._source: bytes | str | None = None
        self._copy: OwnConnection | None = None
        self._schema: Schema | None = None

    @classmethod
    def open(cls, source: bytes | str, *, key: str = "", deadline_s: float = 2.0) -> Database:
        """A database from its bytes or the path of its file. ``key`` names the content; without it, it is hashed."""
        database = cls(deadline_s=deadline_s)
        database.load(source, key=key)
        return database

    def load(self, source: bytes | str, *, key: str = "") -> None:
        """Replace the database by a fresh copy of ``source``; the copy is made when first needed."""
        self._drop()
        self._source, self.key, self._schema = source, key or content_key(source), None

    def close(self) -> None:
        """Release everything. A closed database can be loaded again."""
        self._drop()
        self._source = self._schema = None
        self.key = ""

    def schema(self) -> Schema:
        """What the database holds. Raises EnvError when its file is gone."""
        if self._schema is None:
            self._schema = _schemas.get(self.key)
        if self._schema is None:
            self._schema = self._read_schema()
            _schemas.put(self.key, self._schema)
        return self._schema

    def run(self, sql: str, *, keep: int = KEEP_ROWS, count: bool = True) -> QueryResult:
        """Run one SELECT. Keeps at most ``keep`` rows; ``count`` says whether to find the number of all rows.

        Raises EnvError when the file of the database is gone; everything else is a ``QueryResult``.
        """
        if len(sql) > SQL_CHARS:
            return QueryResult(error=f"the query has {len(sql)} characters; at most {SQL_CHARS} are allowed")
        schema = self.schema()
        try:
            copy = self._armed(schema)
        except (sqlite3.Error, MemoryError) as error:  # a damaged database
            return QueryResult(error=_error_text(error))
        result = self._run_on(copy, sql, keep, count)
        if not copy.guard.wants_alone:
            return result
        try:
            alone = self._limited(self._made(alone=True), schema)
        except (sqlite3.Error, MemoryError) as error:
            return QueryResult(error=_error_text(error))
        try:
            return self._run_on(alone, sql, keep, count)
        finally:
            alone.close()

    def run_backwards(self, sql: str, *, keep: int = KEEP_ROWS) -> QueryResult:
        """The same on a copy of its own, in which rows come the other way round wherever no ORDER BY says how.

        So a query whose result depends on how rows are stored gives another one.
        """
        schema = self.schema()
        try:
            copy = self._limited(self._made(alone=True), schema)
        except (sqlite3.Error, MemoryError) as error:
            return QueryResult(error=_error_text(error))
        try:
            copy.guard.trusted = True
            copy.connection.execute("PRAGMA reverse_unordered_selects = ON").close()
            copy.guard.trusted = False
            copy.watch()
            return self._run_on(copy, sql, keep, False)
        finally:
            copy.close()

    def tables_read(self, sql: str) -> tuple[str, ...]:
        """The tables that a query reads, in the order of their first use; none if it cannot be compiled."""
        schema = self.schema()
        found: dict[str, None] = {}
        try:
            copy = self._armed(schema)
        except (sqlite3.Error, MemoryError):
            return ()

        def note(action: int, one: str | None, two: str | None, database: str | None, by: str | None) -> int:
            table = schema.tables.get((one or "").lower())
            if action == sqlite3.SQLITE_READ and table is not None:
                found[table.name] = None
            return copy.guard.authorize(action, one, two, database, by)

        copy.guard.begin(self.deadline_s)
        copy.guard.counted = True  # nothing runs
        try:
            copy.connection.set_authorizer(note)
            copy.connection.execute(f"EXPLAIN {sql}").close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError):  # ``run`` reports its error
            return ()
        finally:
            copy.watch()
        return tuple(found)

    # --- the copy -----------------------------------------------------------------------------------------------------

    def _made(self, *, alone: bool = False) -> OwnConnection:
        """A copy of the loaded database; ``alone``: one that is never reused."""
        source = self._source
        if source is None:
            raise EnvError("no database is loaded; call load() first")
        image = _without_wal(source) if isinstance(source, bytes) else _image(source)
        if image is None:
            return OwnConnection.of_file(str(Path(str(source)).resolve()), alone=alone)
        if not image:
            raise sqlite3.DatabaseError("file is empty")
        return OwnConnection.of_image(image, alone=True) if alone else _copies.take(image)

    def _armed(self, schema: Schema) -> OwnConnection:
        if self._copy is None:
            self._copy = self._limited(self._made(), schema)
        return self._copy

    @staticmethod
    def _limited(copy: OwnConnection, schema: Schema) -> OwnConnection:
        copy.connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, max(LEAST_COLUMNS, schema.widest))
        return copy

    def _read_schema(self) -> Schema:
        try:
            copy = self._copy = self._copy or self._made()
        except (sqlite3.Error, MemoryError) as error:  # a damaged database
            return Schema(error=_error_text(error))
        copy.guard.begin(SCHEMA_DEADLINE_S)
        copy.guard.trusted = True
        try:
            copy.connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, MOST_COLUMNS)
            return read_schema(copy.connection)
        except (sqlite3.Error, MemoryError) as error:
            return Schema(error=_error_text(error))
        finally:
            copy.guard.trusted = False
            copy.watch()
            self._drop()

    def _drop(self) -> None:
        if self._copy is not None:
            copy, self._copy = self._copy, None
            _copies.give(copy)

    # --- running ------------------------------------------------------------------------------------------------------

    def _run_on(self, copy: OwnConnection, sql: str, keep: int, count: bool) -> QueryResult:
        copy.guard.begin(self.deadline_s)
        result = self._tried(copy, sql, keep, count)
        if not copy.guard.wants_count:
            return result
        copy.guard.begin(self.deadline_s)
        copy.guard.counted = True
        calls = _slow_calls(copy.connection, sql)
        if calls > SLOW_CALLS:
            return QueryResult(
                error=f"{calls} calls of functions such as LIKE, replace and instr; at most {SLOW_CALLS}"
            )
        copy.look_often(True)
        try:
            return self._tried(copy, sql, keep, count)
        finally:
            copy.look_often(False)

    def _tried(self, copy: OwnConnection, sql: str, keep: int, count: bool) -> QueryResult:
        connection = copy.connection
        try:
            try:
                return self._fetch(copy, sql, keep, count)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
            connection.text_factory = _lenient  # real databases hold text in other encodings
            return self._fetch(copy, sql, keep, count)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError, OverflowError) as error:
            return self._failure(error, copy.guard)

    def _fetch(self, copy: OwnConnection, sql: str, keep: int, count: bool) -> QueryResult:
        cursor = copy.connection.execute(sql)
        try:
            if cursor.description is None:
                return QueryResult(error="this is not a query; write one SELECT")
            columns = tuple(column[0] for column in cursor.description)
            rows, complete = _take(cursor, keep)
        finally:
            cursor.close()
        if complete:
            return QueryResult(columns=columns, rows=rows, count=len(rows), complete=True)
        copy.guard.counted = True  # the same calls, once more
        return QueryResult(columns=columns, rows=rows, count=self._count(copy.connection, sql) if count else None)

    def _count(self, connection: sqlite3.Connection, sql: str) -> int | None:
        try:
            row = connection.execute(f"SELECT count(*) FROM (\n{sql.rstrip().rstrip(';')}\n)").fetchone()
        except (sqlite3.Error, MemoryError):  # out of time: the caller says "more than"
            return None
        return int(row[0])

    def _failure(self, error: Exception, guard: Guard) -> QueryResult:
        refusal = guard.refusal()
        if refusal == "look":
            return QueryResult(error="PRAGMA is not available; use list_tables and describe")
        if refusal == "write":
            return QueryResult(error="the database is read-only; only SELECT is allowed", refused=True)
        if "may not be modified" in str(error):
            return QueryResult(error=str(error), refused=True)
        if guard.stopped == "time":
            return QueryResult(error=f"stopped after {self.deadline_s:g} s", timed_out=True)
        if guard.stopped == "memory" or isinstance(error, MemoryError):
            return QueryResult(error="stopped: it needs too much memory")
        return QueryResult(error=_error_text(error))


def _slow_calls(connection: sqlite3.Connection, sql: str) -> int:
    """How many calls the compiled query makes, each once a row; a column of a subquery may stand in many places."""
    try:
        program = connection.execute(f"EXPLAIN {sql}").fetchall()
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError):  # running it reports the error
        return 0
    calls = (str(step[5]).partition("(")[0] for step in program if step[1] in ("Function", "PureFunc"))
    return sum(name.lower() in SLOW_FUNCTIONS for name in calls)


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def content_key(source: bytes | str) -> str:
    """A name for the content of a database: equal bytes, equal key. Raises EnvError when the file cannot be read."""
    digest = hashlib.blake2b(digest_size=8)
    if isinstance(source, bytes):
        digest.update(source)
        return digest.hexdigest()
    try:
        with Path(source).open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    except OSError as error:
        raise EnvError(f"database file '{source}' cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _image(path: str) -> bytes | None:
    """The bytes of a file of up to ``IN_MEMORY_BYTES``, None for a larger one."""
    try:
        stat = Path(path).stat()
        if stat.st_size > IN_MEMORY_BYTES:
            return None
        key = (path, stat.st_mtime_ns, stat.st_size)
        image = _images.get(key)
        if image is None:
            image = _without_wal(Path(path).read_bytes())
            _images.put(key, image, weight=len(image))
    except OSError as error:
        raise EnvError(f"database file '{path}' cannot be read: {error.strerror}") from error
    return image


def _without_wal(image: bytes) -> bytes:
    """A copy in memory cannot have a write-ahead log; bytes 18 and 19 say that a file has one, so they are changed."""
    return image[:18] + b"\x01\x01" + image[20:] if image[18:20] == b"\x02\x02" else image


def _take(cursor: sqlite3.Cursor, keep: int) -> tuple[list[Row], bool]:
    """Up to ``keep`` rows and about ``KEEP_CHARS`` characters of them, and whether these are all rows."""
    rows: list[Row] = []
    room, size = KEEP_CHARS, FIRST_ROWS
    while len(rows) <= keep and room > 0:
        chunk = cursor.fetchmany(size)
        rows += chunk
        if len(chunk) < size:
            return rows[:keep], len(rows) <= keep
        room -= sum(len(cell) for row in chunk for cell in row if isinstance(cell, str | bytes))
        size = min(4 * size, 1024)
    return rows[:keep], False


def _lenient(text: bytes) -> str:
    return text.decode(errors="replace")
