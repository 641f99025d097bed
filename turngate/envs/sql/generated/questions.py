"""What a question is made of: the query behind it, the words that fill its template, and the random choices.

A shape is a template plus a builder. The builder picks tables, columns and values from a database and returns a
``QuestionDraft``; whether the draft is a fair question about that database is for ``flaw`` to say, and the caller tries
again if it is not. ``Misfit`` means that this family or database has nothing of the wanted kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from turngate.envs.seeded_random import SeededRandom
from turngate.envs.sql.generated.content import BuiltDatabase, Value
from turngate.envs.sql.generated.families_schema import NAME, SHOWN, Column, DatabaseFamily, Kind, Link, TableDesign

T = TypeVar("T")

MAX_ROWS = 50  # of an answer
VALUES = ("v", "w")  # the words of a template that stand for values


class Misfit(Exception):
    """The builder found nothing to ask about; never leaves this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A SELECT statement by clause. ``tables`` in order of appearance; ``then``: a set operator and its right side."""

    select: str
    tables: tuple[str, ...]
    source: str = ""
    where: tuple[str, ...] = ()
    group: str = ""
    having: str = ""
    order: str = ""
    limit: int = 0
    distinct: bool = False
    then: tuple[str, Query] | None = None

    @property
    def sql(self) -> str:
        """The statement in the one style of all gold queries."""
        parts = [f"SELECT {'DISTINCT ' if self.distinct else ''}{self.select} FROM {self.source or self.tables[0]}"]
        clauses = [("WHERE", " AND ".join(self.where)), ("GROUP BY", self.group), ("HAVING", self.having)]
        clauses += [("ORDER BY", self.order), ("LIMIT", str(self.limit) if self.limit else "")]
        parts += [f"{keyword} {text}" for keyword, text in clauses if text]
        if self.then:
            parts += [self.then[0], self.then[1].sql]
        return " ".join(parts)

    @property
    def ordered(self) -> bool:
        """Whether the order of the answer's rows matters."""
        return bool(self.order) and self.limit != 1

    def weaker(self) -> Iterator[Query]:
        """This query with one clause left out: what a hasty reader of the question would write."""
        for i in range(len(self.where)):
            yield replace(self, where=self.where[:i] + self.where[i + 1 :])
        if self.having:
            yield replace(self, having="")
        if self.order:
            yield replace(self, order="")
        if self.limit:
            yield replace(self, limit=0)
        if self.distinct:
            yield replace(self, distinct=False)
        if self.then:
            for side in (replace(self, then=None), self.then[1]):
                yield from (replace(side, distinct=distinct) for distinct in (False, True))

    def keys(self) -> Query:
        """The sort keys of the answer's rows, and of the first row behind the limit."""
        expression = self.order.removesuffix(" DESC")
        return replace(self, select=expression, limit=self.limit + 1 if self.limit else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDraft:
    """A query, the words for its template, and further wrong queries whose answers must differ."""

    query: Query
    words: Mapping[str, object]
    decoys: tuple[str, ...] = ()


Builder = Callable[["Pick"], QuestionDraft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of question. ``fits`` says whether a family has what the builder needs."""

    name: str
    level: int
    templates: tuple[str, ...]
    build: Builder
    fits: Callable[[DatabaseFamily], bool]


def _always(family: DatabaseFamily) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The shapes of one level, in the order in which they are written down."""

    level: int
    shapes: list[Shape] = field(default_factory=list)

    def shape(self, *templates: str, fits: Callable[[DatabaseFamily], bool] = _always) -> Callable[[Builder], Builder]:
        """Decorator: add a builder under its own name, without the leading underscore."""

        def add(build: Builder) -> Builder:
            name = build.__name__.lstrip("_")
            self.shapes.append(Shape(name=name, level=self.level, templates=templates, build=build, fits=fits))
            return build

        return add


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Random choices of one draft."""

    rng: SeededRandom
    database: BuiltDatabase

    def table(self, *needs: tuple[Kind, ...], nulls: bool | None = None) -> TableDesign:
        """A table with a column of each wanted kind. Raises Misfit."""
        tables = self.database.family.tables
        return self._of(tuple(t for t in tables if all(t.of_kind(kinds, nulls=nulls) for kinds in needs)))

    def column(self, table: TableDesign, kinds: tuple[Kind, ...], *but: Column, nulls: bool | None = None) -> Column:
        """A column of these kinds other than ``but``. Raises Misfit."""
        return self._of(tuple(c for c in table.of_kind(kinds, nulls=nulls) if c not in but))

    def visible_column(self, table: TableDesign, *but: Column) -> Column:
        """A column to ask for: mostly the name. Raises Misfit."""
        names = tuple(c for c in table.of_kind(NAME) if c not in but)
        return names[0] if names and self.rng.uniform() < 0.6 else self.column(table, SHOWN, *but)

    def value(self, table: TableDesign, column: Column) -> Value:
        """A value that occurs in the column. Raises Misfit."""
        return self._of(self.database.values(table, column))

    def two(self, table: TableDesign, column: Column) -> tuple[Value, Value]:
        """Two different values that occur in the column, the smaller one first. Raises Misfit."""
        values = list(dict.fromkeys(self.database.values(table, column)))
        if len(values) < 2:
            raise Misfit
        first, second = self.rng.sample(values, 2)
        return (first, second) if first < second else (second, first)  # type: ignore[operator]

    def link(self, child: tuple[Kind, ...] = (), parent: tuple[Kind, ...] = ()) -> Link:
        """A foreign key whose child and parent have a column of these kinds, none of them NULL. Raises Misfit."""
        return self._of(
            tuple(
                link
                for link in self.database.family.links
                if (not child or link.child.of_kind(child, nulls=False))
                and (not parent or link.parent.of_kind(parent, nulls=False))
            )
        )

    def chain(self) -> tuple[Link, Link]:
        """Two foreign keys, child → middle and middle → top. Raises Misfit."""
        return self._of(self.database.family.chains)

    def bridge(self) -> tuple[Link, Link]:
        """Two foreign keys of one table. Raises Misfit."""
        return self._of(self.database.family.bridges)

    def condition(self, table: TableDesign, *but: Column, prefix: str = "") -> tuple[str, str, Column]:
        """A condition as SQL, as words that follow "with", and the column that it is about. Raises Misfit."""
        column = self.column(table, ("category", "whole", "real", "year"), *but, nulls=False)
        value = self.value(table, column)
        sign, word = ("=", "") if column.kind == "category" else self.rng.pick(((">", "above "), ("<", "below ")))
        return f"{prefix}{column.name} {sign} {literal(value)}", f"{column.says} {word}{literal(value)}", column

    def _of(self, items: Sequence[T]) -> T:
        if not items:
            raise Misfit
        return self.rng.pick(items)


def literal(value: Value) -> str:
    """A value as it stands in SQL."""
    return f"'{value}'" if isinstance(value, str) else str(value)


def wording(template: str, words: Mapping[str, object]) -> str:
    """The question: columns and tables of ``words`` stand for their nouns; ``{c:a}`` puts "a" or "an" before one.

    ``v`` and ``w`` are values; text among them is quoted, so that it cannot be read as a word of the question.
    """
    shown = {key: literal(word) if key in VALUES and isinstance(word, str) else word for key, word in words.items()}
    return template.format_map({key: _Noun(word) for key, word in shown.items()})


class _Noun(str):
    __slots__ = ()

    def __new__(cls, word: object) -> _Noun:
        if isinstance(word, Column):
            return super().__new__(cls, word.says)
        return super().__new__(cls, word.name if isinstance(word, TableDesign) else word)

    def __format__(self, spec: str) -> str:
        return f"{'an' if self[0] in 'aeiou' else 'a'} {self}" if spec == "a" else str(self)


def flaw(draft: QuestionDraft, database: BuiltDatabase) -> str:
    """Why the draft is no fair question about this database; "" if it is one.

    Fair: the answer has 1 to 50 rows and says something; neither its rows nor their order depend on ties; and no query
    that leaves out a clause, reads a whole table or is listed as a decoy gives the same answer.
    """
    query = draft.query
    rows = database.run(query.sql)
    if not 1 <= len(rows) <= MAX_ROWS:
        return f"{len(rows)} rows"
    if not any(value not in (None, 0) for row in rows for value in row):
        return "says nothing"
    if query.order:
        keys = database.run(query.keys().sql)
        if len(set(keys)) < len(keys) or any(None in key for key in keys):
            return "tie"
    tables = (f"SELECT * FROM {table}" for table in query.tables)
    wrong = (*(weak.sql for weak in query.weaker()), *draft.decoys, *tables)
    known = rows if query.ordered else Counter(rows)
    for sql in wrong:
        other = database.run(sql)
        if len(other) == len(rows) and (other if query.ordered else Counter(other)) == known:
            return f"same answer as: {sql}"
    return ""
