"""The types that declare a family of databases: what its tables hold and what people call them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["name", "category", "whole", "real", "year", "date", "link"]

NAME: tuple[Kind, ...] = ("name",)
CATEGORY: tuple[Kind, ...] = ("category",)
DATE: tuple[Kind, ...] = ("date",)
LINK: tuple[Kind, ...] = ("link",)
AMOUNT: tuple[Kind, ...] = ("whole", "real")  # may be added and averaged
NUMBER: tuple[Kind, ...] = ("whole", "real", "year")  # may be compared
SHOWN: tuple[Kind, ...] = ("name", "category", "whole", "real", "year", "date")  # may be asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column. ``says``: its noun in questions; ``words``: pool of a name or category; ``to``: table of a link."""

    name: str
    kind: Kind
    says: str
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    to: str = ""
    nulls: bool = False

    @property
    def ddl(self) -> str:
        """The column as it stands in CREATE TABLE."""
        affinity = {"whole": "INTEGER", "year": "INTEGER", "link": "INTEGER", "real": "REAL"}.get(self.kind, "TEXT")
        reference = f" REFERENCES {self.to}(id)" if self.to else ""
        return f"{self.name} {affinity}{'' if self.nulls else ' NOT NULL'}{reference}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDesign:
    """One table; every table also has ``id INTEGER PRIMARY KEY``. ``size``: rows relative to the requested number."""

    name: str
    one: str
    size: float
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        """The CREATE TABLE statement, on one line."""
        return f"CREATE TABLE {self.name} (id INTEGER PRIMARY KEY, {', '.join(c.ddl for c in self.columns)})"

    def of_kind(self, kinds: Collection[Kind], *, nulls: bool | None = None) -> tuple[Column, ...]:
        """The columns of these kinds; ``nulls`` restricts to columns that may (True) or may not (False) be NULL."""
        return tuple(c for c in self.columns if c.kind in kinds and nulls in (None, c.nulls))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A foreign key: ``child.column`` refers to ``parent.id``."""

    child: TableDesign
    column: Column
    parent: TableDesign

    @property
    def on(self) -> str:
        """The join condition."""
        return f"{self.child.name}.{self.column.name} = {self.parent.name}.id"


@dataclass(frozen=True, kw_only=True)
class DatabaseFamily:
    """Tables that belong together; parents stand before their children."""

    name: str
    tables: tuple[TableDesign, ...]

    def table(self, name: str) -> TableDesign:
        """The table of that name."""
        return next(table for table in self.tables if table.name == name)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All foreign keys."""
        return tuple(
            Link(child=table, column=column, parent=self.table(column.to))
            for table in self.tables
            for column in table.of_kind(LINK)
        )

    @cached_property
    def chains(self) -> tuple[tuple[Link, Link], ...]:
        """Pairs child → middle, middle → top."""
        return tuple((low, high) for low in self.links for high in self.links if low.parent == high.child)

    @cached_property
    def bridges(self) -> tuple[tuple[Link, Link], ...]:
        """Pairs of links that leave the same table for two different parents."""
        return tuple((a, b) for a in self.links for b in self.links if a.child == b.child and a.parent != b.parent)


def names(words: tuple[str, ...], name: str = "name") -> Column:
    """A text column without duplicates: what people call a row."""
    return Column(name=name, kind="name", says=name, words=words)


def category(name: str, words: str, *, says: str = "", nulls: bool = False) -> Column:
    """A text column with few values, given as one blank-separated string."""
    return Column(name=name, kind="category", says=says or name, words=tuple(words.split()), nulls=nulls)


def whole(name: str, low: int, high: int, *, says: str = "", nulls: bool = False) -> Column:
    """Integers from ``low`` to ``high``, both included."""
    return Column(name=name, kind="whole", says=says or name, low=low, high=high, nulls=nulls)


def real(name: str, low: int, high: int, *, says: str = "", nulls: bool = False) -> Column:
    """Numbers with one decimal from ``low`` to ``high``."""
    return Column(name=name, kind="real", says=says or name, low=low, high=high, nulls=nulls)


def year(name: str, low: int, high: int, *, says: str) -> Column:
    """A year: an integer that is compared, but never added or averaged."""
    return Column(name=name, kind="year", says=says, low=low, high=high)


def date(name: str, *, says: str, nulls: bool = False) -> Column:
    """A day from 2018 to 2023, written YYYY-MM-DD."""
    return Column(name=name, kind="date", says=says, low=2018, high=2023, nulls=nulls)


def link(name: str, to: str) -> Column:
    """A reference to ``to.id``; never NULL, so that NOT IN means what it says."""
    return Column(name=name, kind="link", says=name, to=to)


def table(name: str, one: str, size: float, *columns: Column) -> TableDesign:
    """A table; ``name`` is also its plural noun, ``one`` its singular."""
    return TableDesign(name=name, one=one, size=size, columns=columns)
