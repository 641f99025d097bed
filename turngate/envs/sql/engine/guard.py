"""The permissions and time limit of a query on one connection: the callbacks that SQLite calls."""

from __future__ import annotations

import sqlite3
import time

from turngate.envs.sql.engine.connection import heap_used

COMPILE_BYTES = 64 * 2**20  # the same while it is compiled: subqueries that are flattened can multiply without end
HEAP_BYTES = 256 * 2**20  # SQLite's further allocations while one query runs

FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "lsmode", "eval"})
SCHEMA_PRAGMAS = frozenset(
    "table_info table_xinfo table_list foreign_key_list index_list index_info index_xinfo".split()
)
SLOW_FUNCTIONS = frozenset({"instr", "replace", "like", "glob"})  # up to 25 ms a call, which nothing can interrupt
STATEMENTS_TABLE = "sqlite_stmt"  # shows what else was compiled on a connection: the queries of earlier episodes

_READ, _UPDATE = sqlite3.SQLITE_READ, sqlite3.SQLITE_UPDATE
_FUNCTION, _PRAGMA = sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA
_ALLOWED = frozenset({_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE})
_OK, _DENY = sqlite3.SQLITE_OK, sqlite3.SQLITE_DENY


class Guard:
    """Lets through nothing but SELECT, reads and functions, notes what it refused, and watches clock and memory.

    ``alone``: no other episode ever uses its connection, so the statements compiled on it may be looked at.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self.trusted = False  # while this package itself works on the connection
        self._alone = alone
        self._stop_at = 0.0
        self._heap_at = 0
        self._refusal: tuple[int, str | None, str | None] | None = None
        self.stopped = ""
        """Why the running query was interrupted: "time", "memory" or nothing."""
        self.wants_alone = False
        """Whether the query was refused only because other episodes use the connection, too."""
        self.wants_count = False
        """Whether the query was refused only because its calls of slow functions were not counted."""
        self.counted = False
        """Whether they were counted."""

    def begin(self, seconds: float) -> None:
        """A query begins, and may take so long."""
        self._stop_at, self._heap_at = time.monotonic() + seconds, heap_used()
        self.stopped, self._refusal = "", None
        self.wants_alone = self.wants_count = self.counted = False

    def tick(self) -> bool:
        """Called by SQLite every ``TICK`` instructions; True interrupts the query."""
        if time.monotonic() > self._stop_at:
            self.stopped = "time"
        elif heap_used() - self._heap_at > HEAP_BYTES:
            self.stopped = "memory"
        return bool(self.stopped)

    def authorize(self, action: int, one: str | None, two: str | None, _database: str | None, _by: str | None) -> int:
        """Called by SQLite for each thing that a statement would do, while it is compiled."""
        if action == _READ and (one or "").lower() == STATEMENTS_TABLE and not self._alone:
            self.wants_alone = True
            return _DENY
        if action == sqlite3.SQLITE_SELECT and heap_used() - self._heap_at > COMPILE_BYTES:  # asked at each flattening
            self.stopped = "memory"
            return _DENY
        if action in _ALLOWED or self.trusted:
            return _OK
        if action == _FUNCTION and (two or "").lower() in SLOW_FUNCTIONS and not self.counted:
            self.wants_count = True
            return _DENY
        if action == _FUNCTION and (two or "").lower() not in FORBIDDEN_FUNCTIONS:
            return _OK
        if action == _PRAGMA and one == "data_version" and two is None:  # what full-text tables ask before a search
            return _OK
        if action == _UPDATE and one == "sqlite_master":  # how json_each() and full-text tables declare themselves
            return _OK
        self._refusal = self._refusal or (action, one, two)
        return _DENY

    def refusal(self) -> str:
        """What the authorizer refused: "write", "look" (at the schema, through PRAGMA), or nothing."""
        if self._refusal is None:
            return ""
        action, name, value = self._refusal
        looks = action == _PRAGMA and (value is None or (name or "").lower() in SCHEMA_PRAGMAS)
        return "look" if looks else "write"
