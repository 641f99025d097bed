"""A SQLite database as documents with links: each row is a document, foreign keys and columns are what it says.

Tables take part whose rows have a name: a text column whose values differ. Every other column is a link, to the row
that a foreign key names or to a plain value. The file is only read.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from turngate.envs.search.engine.passages import Document
from turngate.envs.search.generated.graphs import Graph, Node
from turngate.envs.search.generated.made_up import LinkedDocuments
from turngate.errors import ConfigError, DataError

VALUE_CHARS = 60
"""Longest value of a column that a question can ask for."""

_Cell: TypeAlias = str | int | float | bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedTable:
    """``label``: the column that names its rows; ``keys``: column → (table, column) that it refers to."""

    name: str
    columns: Sequence[str]
    label: str
    own: str
    keys: Mapping[str, tuple[str, str]]
    rows: Sequence[Mapping[str, _Cell]]


def linked_rows(path: Path) -> LinkedDocuments:
    """The rows of a database as documents with links. Raises DataError for a file that is no database, ConfigError
    for one without a table whose rows have names."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            tables = [found for name in sorted(names) if (found := _table(connection, name)) is not None]
    except sqlite3.Error as error:
        raise DataError(path, f"is not a SQLite database that can be read: {error}") from error
    if not tables:
        raise ConfigError(f"'{path}' has no table with a text column whose values differ, so no row has a name")
    return _world({table.name: table for table in tables})


def _table(connection: sqlite3.Connection, name: str) -> _NamedTable | None:
    quoted = '"' + name.replace('"', '""') + '"'
    columns = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
    rows = [dict(row) for row in connection.execute(f"SELECT * FROM {quoted}")]
    foreign = connection.execute(f"PRAGMA foreign_key_list({quoted})").fetchall()
    whole = {number for number, count in Counter(row["id"] for row in foreign).items() if count == 1}
    keys = {row["from"]: (row["table"], row["to"] or "") for row in foreign if row["id"] in whole}
    primary = [column["name"] for column in columns if column["pk"]]
    label = next((one["name"] for one in columns if one["name"] not in keys and _names(rows, one)), None)
    if name.startswith("sqlite_") or label is None:
        return None
    return _NamedTable(
        name=name,
        columns=[column["name"] for column in columns],
        label=label,
        own=primary[0] if len(primary) == 1 else "",
        keys=keys,
        rows=rows,
    )


def _names(rows: Sequence[Mapping[str, _Cell]], column: sqlite3.Row) -> bool:
    """Whether a column names the rows: text, in every row, each time another one."""
    values = [row[column["name"]] for row in rows]
    text = all(isinstance(value, str) and value.strip() and len(value) <= VALUE_CHARS for value in values)
    return bool(values) and text and len({str(value).casefold() for value in values}) == len(values)


def _world(tables: Mapping[str, _NamedTable]) -> LinkedDocuments:
    graph = Graph(phrases={}, links_of={})
    phrases: dict[str, str] = {}
    ids: dict[tuple[str, str, _Cell], str] = {}
    for table in tables.values():
        for number, row in enumerate(table.rows, 1):
            node = Node(id=f"{table.name}/{number}", name=str(row[table.label]), kind=table.name)
            graph.add(node)
            ids |= {(table.name, column, row[column]): node.id for column in table.columns}
    links_of = {table.name: _links(table, phrases) for table in tables.values()}
    graph.phrases, graph.links_of = phrases, links_of
    documents = []
    for table in tables.values():
        for number, row in enumerate(table.rows, 1):
            documents.append(_document(graph, tables, ids, table, f"{table.name}/{number}", row))
    return LinkedDocuments(graph=graph, documents=tuple(documents))


def _links(table: _NamedTable, phrases: dict[str, str]) -> list[str]:
    """The links that rows of a table can have; their wording is entered into ``phrases``."""
    links = []
    for column in table.columns:
        if column not in (table.label, table.own):
            links.append(f"{table.name}.{column}")
            phrases[links[-1]] = f"the {_words(column)} of {{}}"
    return links


def _document(
    graph: Graph,
    tables: Mapping[str, _NamedTable],
    ids: Mapping[tuple[str, str, _Cell], str],
    table: _NamedTable,
    name: str,
    row: Mapping[str, _Cell],
) -> Document:
    title = str(row[table.label])
    lines = [f"{title} ({_words(table.name)})"]
    for column in table.columns:
        value = row[column]
        if column in (table.label, table.own) or value is None or isinstance(value, bytes):
            continue
        target = _target(graph, tables, ids, table, column, value)
        if target is not None:
            graph.link(name, f"{table.name}.{column}", target.id)
        lines.append(f"{_words(column)}: {value if target is None else target.name}")
    return Document(id=name, title=title, text="\n".join(lines), where=f"row {name}")


def _target(
    graph: Graph,
    tables: Mapping[str, _NamedTable],
    ids: Mapping[tuple[str, str, _Cell], str],
    table: _NamedTable,
    column: str,
    value: _Cell,
) -> Node | None:
    """What a cell leads to; None for a value that no question asks for."""
    if column in table.keys:
        other, theirs = table.keys[column]
        found = ids.get((other, theirs or (tables[other].own if other in tables else ""), value))
        return graph.nodes[found] if found else None
    text = str(value).strip()
    if not text or len(text) > VALUE_CHARS or "\n" in text:
        return None
    node = Node(id=f"value {text}", name=text, kind="", document=False)
    return graph.nodes.setdefault(node.id, node)


def _words(name: str) -> str:
    """A name of a schema in words, without the sign that it is a key: ArtistId is artist, first_name is first name."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").split()
    kept = apart[:-1] if len(apart) > 1 and apart[-1].lower() == "id" else apart
    return " ".join(kept).lower() or name
