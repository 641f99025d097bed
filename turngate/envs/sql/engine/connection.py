"""SQLite connections that are safe to hand to an agent: limits on every size, and functions that cannot hang."""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

FINE_TICK = 50  # the same for queries with slow functions
TICK = 1000  # virtual-machine instructions between two looks at clock and memory

# A value of 50 kB holds any text that an agent can use, and keeps instr() and replace(), whose cost is quadratic and
# which nothing can interrupt, below 20 ms a call. The other limits bound the time that compiling a statement takes.
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 50_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 5_400,  # about 20 times the need of the longest real questions
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 16,  # for the statements of full-text tables; a query is given no values
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_PRAGMAS = """
PRAGMA temp_store = memory; PRAGMA query_only = on; PRAGMA trusted_schema = off; PRAGMA cell_size_check = on;
"""
_HUGE_WIDTH = re.compile(r"%[^%a-zA-Z]*(\*|\d{4})")
_plain_lock = Lock()


def hardened(address: str, tick: Callable[[], bool]) -> sqlite3.Connection:
    """A read-only connection with all limits. ``tick`` is called every ``TICK`` instructions; True interrupts."""
    _limit_heap()
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.executescript(_PRAGMAS)  # as a script, because it keeps no statement that ``sqlite_stmt`` would show
    for category, value in LIMITS.items():
        connection.setlimit(category, value)
    for name, strip in (("trim", str.strip), ("ltrim", str.lstrip), ("rtrim", str.rstrip)):
        connection.create_function(name, 2, _bounded_trim(strip), deterministic=True)
    for name in ("printf", "format"):
        connection.create_function(name, -1, _bounded_printf, deterministic=True)
    connection.set_progress_handler(tick, TICK)
    return connection


def _bounded_trim(strip: Callable[[str, str], str]) -> Callable[[Any, Any], str | None]:
    """``trim(X, Y)``: SQLite's own takes seconds for a long Y and cannot be interrupted meanwhile."""

    def trim(value: Any, characters: Any) -> str | None:
        if value is None or characters is None:
            return None
        return strip(_as_text(value), "".join(dict.fromkeys(_as_text(characters))))

    return trim


def _bounded_printf(*values: Any) -> Any:
    """``printf(FORMAT, …)``: SQLite's own takes seconds for a huge width and cannot be interrupted meanwhile."""
    if values and _HUGE_WIDTH.search(_as_text(values[0])):
        raise ValueError("a width of four digits or '*'")
    return _own(f"printf({','.join('?' * len(values))})", values)


def _own(call: str, values: tuple[Any, ...]) -> Any:
    """The result of SQLite's own function."""
    with _plain_lock:
        return _plain().execute(f"SELECT {call}", values).fetchone()[0]


@cache
def _plain() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", check_same_thread=False)


def _as_text(value: Any) -> str:
    """``value`` as CAST(value AS TEXT) writes it."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(_own("CAST(? AS TEXT)", (value,))) if isinstance(value, float) else str(value)


@cache
def _limit_heap() -> None:
    """SQLite may take half of the machine's memory in this process, then a query fails and no program is killed.

    Compiling a query of some thousand characters can ask for any amount, and nothing can interrupt it meanwhile.
    """
    import _sqlite3

    try:
        limit = ctypes.CDLL(_sqlite3.__file__).sqlite3_hard_heap_limit64
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return
    limit.argtypes, limit.restype = [ctypes.c_int64], ctypes.c_int64
    limit(half)


def heap_used() -> int:
    """Bytes that SQLite has allocated in this process; always zero where its gauge cannot be found."""
    return _heap_gauge()()


@cache
def _heap_gauge() -> Callable[[], int]:
    import _sqlite3  # the module that is linked with the library

    try:
        gauge = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    except (AttributeError, OSError):
        return lambda: 0
    gauge.restype = ctypes.c_int64
    return gauge
