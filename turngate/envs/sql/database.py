"""A SQLite database that an agent may question and nothing else: fresh per episode, read-only, bounded in every way.

Three walls stand between a query and the host. The connection reads a private copy in memory and is ``query_only``; an
authorizer lets through nothing but SELECT, reads and functions, and notes what it refused; limits on the size of a
value, of a statement and of what is kept, with a progress handler that watches clock and memory, stop whatever takes
too much. Whatever goes wrong inside a query is a ``Result`` with an error, never an exception.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote as quote_url

from turngate.envs.cache import Cache
from turngate.envs.sql.connection import hardened, heap_used
from turngate.envs.sql.schema import Schema, read_schema
from turngate.errors import EnvError

Cell: TypeAlias = None | int | float | str | bytes
Row: TypeAlias = tuple[Cell, ...]

IN_MEMORY_BYTES = 32 * 2**20  # files up to this size are copied; larger ones are opened immutable
KEEP_ROWS = 10_000  # rows of a result that are kept; beyond, they are only counted
KEEP_CHARS = 16 * 2**20  # the same bound in characters and bytes of their cells
HEAP_BYTES = 256 * 2**20  # what SQLite may allocate on top while one query runs
SCHEMA_DEADLINE_S = 10.0  # reading the schema counts every row of every table, once per database
SQL_CHARS = 20_000  # longest statement
FIRST_ROWS = 16  # rows fetched before their size is looked at
LEAST_COLUMNS = 100  # a result may be this wide, or as wide as the widest table

FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "lsmode", "eval"})
SCHEMA_PRAGMAS = frozenset(
    "table_info table_xinfo table_list foreign_key_list index_list index_info index_xinfo".split()
)

_READ, _UPDATE = sqlite3.SQLITE_READ, sqlite3.SQLITE_UPDATE
_FUNCTION, _PRAGMA = sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA
_ALLOWED = frozenset({_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_OK, _DENY = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY

_images: Cache[tuple[str, int, int], bytes] = Cache(room=256 * 2**20)
_schemas: Cache[str, Schema] = Cache(room=4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a query gave. ``rows`` are all rows if ``complete``, else the first ones.

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
        self._memory: sqlite3.Connection | None = None  # kept from load to load: a new copy replaces the old one
        self._held: bytes | None = None  # the image that the statements compiled for the agent belong to
        self._trusted = False  # while this module itself works on the connection
        self._open: sqlite3.Connection | None = None
        self._schema: Schema | None = None
        self._stop_at = 0.0
        self._heap_at = 0
        self._stopped = ""
        self._refusal: tuple[int, str | None, str | None] | None = None

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
        """Give everything back. A closed database can be loaded again."""
        self._drop()
        self._source = self._schema = None
        self.key = ""
        if self._memory is not None:
            self._memory.close()
            self._memory = self._held = None

    def schema(self) -> Schema:
        """What the database holds. Raises EnvError when its file is gone."""
        if self._schema is None:
            self._schema = _schemas.get(self.key)
        if self._schema is None:
            self._schema = self._read_schema()
            _schemas.put(self.key, self._schema)
        return self._schema

    def run(self, sql: str, *, keep: int = KEEP_ROWS, count: bool = True) -> Result:
        """Run one SELECT. Keeps at most ``keep`` rows; ``count`` says whether to find the number of all rows.

        Raises EnvError when the file of the database is gone; everything else is a ``Result``.
        """
        if len(sql) > SQL_CHARS:
            return Result(error=f"the query has {len(sql)} characters; at most {SQL_CHARS} are allowed")
        schema = self.schema()
        self._start_clock(self.deadline_s)
        self._refusal = None
        try:
            connection = self._open or self._armed(schema)
            try:
                return self._fetch(connection, sql, keep, count)
            except sqlite3.OperationalError as error:
                if "decode" not in str(error):
                    raise
            connection.text_factory = _lenient  # real databases hold text in other encodings
            return self._fetch(connection, sql, keep, count)
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError, OverflowError) as error:
            return self._failure(error)

    def tables_read(self, sql: str) -> tuple[str, ...]:
        """The tables that a query reads, in the order of their first use; none if it cannot be compiled."""
        schema = self.schema()
        found: dict[str, None] = {}

        def note(action: int, one: str | None, two: str | None, database: str | None, by: str | None) -> int:
            table = schema.tables.get((one or "").lower())
            if action == _READ and table is not None:
                found[table.name] = None
            return self._authorize(action, one, two, database, by)

        self._start_clock(self.deadline_s)
        try:
            connection = self._open or self._armed(schema)
            connection.set_authorizer(note)
            connection.execute(f"EXPLAIN {sql}").close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, MemoryError):  # ``run`` says what is wrong with it
            return ()
        finally:
            self._forget()
        return tuple(found)

    # --- the connection -----------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        """A connection to a fresh copy."""
        source = self._source
        if source is None:
            raise EnvError("no database is loaded; call load() first")
        image = source if isinstance(source, bytes) else _image(source)
        if image is None:
            self._open = hardened(f"file:{quote_url(str(Path(str(source)).resolve()))}?mode=ro&immutable=1", self._tick)
            self._open.set_authorizer(self._authorize)
            return self._open
        if not image:
            raise sqlite3.DatabaseError("file is empty")
        if self._memory is None:
            self._memory = hardened(":memory:", self._tick)
        self._copy(self._memory, image)
        self._open = self._memory
        return self._memory

    def _copy(self, memory: sqlite3.Connection, image: bytes) -> None:
        """Put a fresh copy of ``image`` behind a connection.

        The connection keeps what it compiled: siblings ask the same questions of equal copies. Compiled statements name
        pages, not tables, so those of another image must go; setting an authorizer expires them all.
        """
        memory.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, 2000)
        if image is not self._held:
            memory.set_authorizer(self._authorize)
        self._held, self._trusted = image, True
        try:
            memory.deserialize(_without_wal(image))
        finally:
            self._trusted = False
        memory.text_factory = str

    def _read_schema(self) -> Schema:
        self._start_clock(SCHEMA_DEADLINE_S)
        try:
            connection = self._connect()
            self._trusted = True
            return read_schema(connection)
        except (sqlite3.Error, MemoryError) as error:  # a damaged database
            return Schema(error=str(error) or type(error).__name__)
        finally:
            self._trusted = False
            self._forget()

    def _armed(self, schema: Schema) -> sqlite3.Connection:
        connection = self._connect()
        connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, max(LEAST_COLUMNS, schema.widest))
        return connection

    def _drop(self) -> None:
        if self._open is not None and self._open is not self._memory:
            self._open.close()
        self._open = None

    def _forget(self) -> None:
        """Drop the copy and whatever was compiled for it under another authority than the agent's."""
        self._drop()
        self._held = None

    def _authorize(self, action: int, one: str | None, two: str | None, _database: str | None, _by: str | None) -> int:
        if action in _ALLOWED or self._trusted:
            return _OK
        if action == _FUNCTION and (two or "").lower() not in FORBIDDEN_FUNCTIONS:
            return _OK
        if action == _UPDATE and one == "sqlite_master":  # how json_each() and full-text tables declare themselves
            return _OK
        self._refusal = self._refusal or (action, one, two)
        return _DENY

    # --- running ------------------------------------------------------------------------------------------------------

    def _start_clock(self, seconds: float) -> None:
        self._stop_at, self._heap_at, self._stopped = time.monotonic() + seconds, heap_used(), ""

    def _tick(self) -> bool:
        """Called by SQLite every ``TICK`` instructions; True interrupts the query."""
        if time.monotonic() > self._stop_at:
            self._stopped = "time"
        elif heap_used() - self._heap_at > HEAP_BYTES:
            self._stopped = "memory"
        return bool(self._stopped)

    def _fetch(self, connection: sqlite3.Connection, sql: str, keep: int, count: bool) -> Result:
        cursor = connection.execute(sql)
        try:
            if cursor.description is None:
                return Result(error="this is not a query; write one SELECT")
            columns = tuple(column[0] for column in cursor.description)
            rows, complete = _take(cursor, keep)
        finally:
            cursor.close()
        if complete:
            return Result(columns=columns, rows=rows, count=len(rows), complete=True)
        return Result(columns=columns, rows=rows, count=self._count(connection, sql) if count else None)

    def _count(self, connection: sqlite3.Connection, sql: str) -> int | None:
        try:
            row = connection.execute(f"SELECT count(*) FROM (\n{sql.rstrip().rstrip(';')}\n)").fetchone()
        except (sqlite3.Error, MemoryError):  # out of time: the caller says "more than"
            return None
        return int(row[0])

    def _failure(self, error: Exception) -> Result:
        if self._refusal is not None:
            action, name, value = self._refusal
            if action == _PRAGMA and (value is None or (name or "").lower() in SCHEMA_PRAGMAS):
                return Result(error="PRAGMA is not available; use list_tables and describe")
            return Result(error="the database is read-only; only SELECT is allowed", refused=True)
        if "may not be modified" in str(error):
            return Result(error=str(error), refused=True)
        if self._stopped == "time":
            return Result(error=f"stopped after {self.deadline_s:g} s", timed_out=True)
        if self._stopped == "memory":
            return Result(error="stopped: it needs too much memory")
        return Result(error=str(error) or type(error).__name__)


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
            image = Path(path).read_bytes()
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
