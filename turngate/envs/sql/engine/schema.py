"""The schema of a database as text for an agent. Read once per database and kept."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table or view. ``n_rows`` is None for a view and where counting was impossible."""

    name: str
    is_view: bool
    n_rows: int | None
    n_columns: int
    text: str

    @property
    def title(self) -> str:
        """The entry in the list of tables, for instance ``books(14 rows)``."""
        if self.is_view:
            return f"{self.name}(view)"
        return f"{self.name}({'?' if self.n_rows is None else self.n_rows} rows)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """All tables by lower-case name, in the order of their creation. ``error``: why the database cannot be read."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    error: str = ""
    listing: str = ""
    widest: int = 0

    def find(self, name: str) -> Table | None:
        """The table of that name in any case, quoted or not."""
        return self.tables.get(name.strip().rstrip(";").strip("\"'`[] ").lower())


def read_schema(connection: sqlite3.Connection) -> Schema:
    """Read the schema through a connection that may run PRAGMA. Raises sqlite3.Error for a damaged database."""
    found = connection.execute(
        "SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    ).fetchall()
    tables = {name.lower(): _read_table(connection, name, bool(is_view)) for name, is_view in found}
    return Schema(
        tables=tables,
        listing=", ".join(table.title for table in tables.values()) or "no tables",
        widest=max((table.n_columns for table in tables.values()), default=0),
    )


def _read_table(connection: sqlite3.Connection, name: str, is_view: bool) -> Table:
    quoted = quote(name)
    try:
        columns = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
        links = connection.execute(f"PRAGMA foreign_key_list({quoted})").fetchall()
    except sqlite3.OperationalError as error:  # a view over something missing, a module that is not installed
        return Table(name=name, is_view=is_view, n_rows=None, n_columns=0, text=f"error: {error}")
    n_rows = None if is_view else _count(connection, quoted)
    text = _describe(columns, links)
    return Table(name=name, is_view=is_view, n_rows=n_rows, n_columns=len(columns), text=text)


def _count(connection: sqlite3.Connection, quoted: str) -> int | None:
    try:
        return int(connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()[0])
    except sqlite3.Error:  # damaged pages, or the deadline: the table is listed without a number
        return None


def _describe(columns: list[tuple[object, ...]], links: list[tuple[object, ...]]) -> str:
    """``columns``: rows of table_info (cid, name, type, notnull, default, pk); ``links``: rows of foreign_key_list."""
    targets = {str(link[3]): f"{link[2]}.{link[4]}" if link[4] else str(link[2]) for link in links}
    keys = [str(column[1]) for column in columns if column[5]]
    words = []
    for _, name, kind, _, _, key in columns:
        parts = [str(name), str(kind)] if kind else [str(name)]
        parts += ["PRIMARY KEY"] if key and len(keys) == 1 else []
        parts += ["->", targets[str(name)]] if str(name) in targets else []
        words.append(" ".join(parts))
    if len(keys) > 1:
        words.append(f"PRIMARY KEY ({', '.join(keys)})")
    return ", ".join(words)


def quote(name: str) -> str:
    """``name`` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
