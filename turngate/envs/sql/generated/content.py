"""Databases: the rows of a family, drawn from a seed, and the SQLite file that holds them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TypeAlias, TypeVar

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.families import FAMILIES
from turngate.envs.sql.generated.families_schema import Column, DatabaseFamily, TableDesign

Value: TypeAlias = int | float | str | None
Row: TypeAlias = tuple[Value, ...]
T = TypeVar("T")

PAGE_BYTES = 1024  # small pages: a database of a dozen rows per table stays below 10 kB
SQLITE_VERSION = (3, 40, 1)
NULL_RATE = 0.2
LEAVE_OUT = 0.25  # share of parents that no child refers to


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BuiltDatabase:
    """One built database. ``image`` is the SQLite file, ``key`` a hash of it; ``rows`` by table as columns say."""

    family: DatabaseFamily
    rows: Mapping[str, Sequence[Row]] = field(repr=False)
    image: bytes = field(repr=False)
    key: str
    connection: sqlite3.Connection = field(repr=False)
    lock: Lock = field(default_factory=Lock, repr=False)

    def run(self, sql: str) -> list[Row]:
        """All rows of a query that this package wrote itself."""
        with self.lock:
            return self.connection.execute(sql).fetchall()

    def values(self, table: TableDesign, column: Column) -> list[Value]:
        """The values of a column without NULLs, in row order."""
        index = table.columns.index(column) + 1
        return [row[index] for row in self.rows[table.name] if row[index] is not None]


@lru_cache(maxsize=256)
def build(family: str, split: str, number: int, rows: int) -> BuiltDatabase:
    """Database ``number`` of a family in a split; seeds of different splits come from different paths."""
    rng = SeededRandom("sql-content", split, family, number, rows)
    declared = FAMILIES[family]
    content = _fill(declared, rng, rows)
    connection = connect()
    for table in declared.tables:
        connection.execute(table.ddl)
        marks = ", ".join("?" * (len(table.columns) + 1))
        connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", content[table.name])
    connection.commit()
    image, key = freeze(connection)
    return BuiltDatabase(family=declared, rows=content, image=image, key=key, connection=connection)


def connect() -> sqlite3.Connection:
    """An empty database in memory with the page size of all files of this package; for use by several threads."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    return connection


def freeze(connection: sqlite3.Connection) -> tuple[bytes, str]:
    """The file image of a database and a short hash of it.

    Bytes 96 to 99 of an SQLite file name the library version that wrote it; they are set to one version, so that
    equal content gives equal bytes on every machine.
    """
    image = bytearray(connection.serialize())
    major, minor, patch = SQLITE_VERSION
    image[96:100] = (major * 1_000_000 + minor * 1_000 + patch).to_bytes(4, "big")
    return bytes(image), hashlib.blake2b(image, digest_size=8).hexdigest()


def _fill(family: DatabaseFamily, rng: SeededRandom, rows: int) -> dict[str, list[Row]]:
    content: dict[str, list[Row]] = {}
    for table in family.tables:
        count = max(3, round(rows * table.size * (0.85 + 0.3 * rng.uniform())))
        columns = [_column(column, count, rng, content) for column in table.columns]
        content[table.name] = list(zip(range(1, count + 1), *columns, strict=True))
    return content


def _column(column: Column, count: int, rng: SeededRandom, content: Mapping[str, list[Row]]) -> Iterable[Value]:
    if column.kind == "name":
        return rng.sample(_names(column.words, count), count)
    if column.kind == "link":
        parents = len(content[column.to])
        used = rng.sample(range(1, parents + 1), max(2, round(parents * (1 - LEAVE_OUT))))
        # the square makes some parents far more popular than others, so that "the most" has an answer
        return [used[int(rng.uniform() ** 2 * len(used))] for _ in range(count)]
    return [None if column.nulls and rng.uniform() < NULL_RATE else _value(column, rng) for _ in range(count)]


def _names(words: tuple[str, ...], count: int) -> list[str]:
    rounds = -(-count // len(words))
    return [word if turn == 0 else f"{word}{turn + 1}" for turn in range(rounds) for word in words]


def _value(column: Column, rng: SeededRandom) -> Value:
    if column.kind == "category":
        return rng.pick(column.words)
    if column.kind == "real":
        return rng.whole(10 * column.low, 10 * column.high) / 10
    if column.kind == "date":
        return f"{rng.whole(column.low, column.high)}-{rng.whole(1, 12):02}-{rng.whole(1, 28):02}"
    return rng.whole(column.low, column.high)
