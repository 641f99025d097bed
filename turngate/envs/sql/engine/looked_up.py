"""Whether a query answered one of the look-ups that a task needs: the fact ``looked_up`` of a turn.

A task whose literals stand in the data only lists its needs, each with a query of its own that reads the missing value.
``looked_up`` says whether the rows that the agent saw hold the answer to one of them, however its query was written. It
does not say whether that answer was new: the same look-up is one again when it is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.sql.engine.database import Database, QueryResult, Row
from turngate.envs.sql.engine.text import cell_text
from turngate.envs.sql.generated.lookup_content import format_of
from turngate.errors import VerifierError

MOST_TIMES = 3
"""A look-up has at most so many times the rows of the need's own query: dumping a table is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One need of a task, with the result of its own query.

    ``names``: the words that show what an answer is about: column and word of a code or an absence, the currency of a
    rate. ``rows``: the answer of its query; none for an absence that has no code (it is NULL). ``tables``: those that
    its query reads.
    """

    kind: str
    column: str
    names: tuple[str, ...]
    rows: Sequence[Row]
    tables: frozenset[str]

    def told_by(self, sql: str, result: QueryResult, shown: Sequence[Row]) -> bool:
        """Whether these rows of a result hold the answer; which tables the query reads is not checked."""
        if not self.rows:
            return self.kind == "absence" and result.count == 0 and self._named(sql)
        if result.count is None or result.count > MOST_TIMES * len(self.rows):
            return False
        if self.kind == "date":
            return self._tells_format(result, shown)
        return all(any(self._holds(row, wanted, sql) for row in shown) for wanted in self.rows)

    def _holds(self, row: Row, wanted: Row, sql: str) -> bool:
        return all(cell in row for cell in wanted) and self._named(" ".join([sql, *map(cell_text, row)]))

    def _named(self, text: str) -> bool:
        return all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) for name in self.names)

    def _tells_format(self, result: QueryResult, shown: Sequence[Row]) -> bool:
        columns = [name.lower() for name in result.columns]
        if self.column not in columns:
            return False
        place = columns.index(self.column)
        try:
            return _form(shown, place) == _form(self.rows, 0)
        except ValueError:  # for instance because all of them can be read in two ways
            return False


def _form(rows: Sequence[Row], place: int) -> str:
    return format_of([cell_text(row[place]) for row in rows])


def needed_lookups(
    needs: Iterable[Mapping[str, str]], source: bytes | str, *, key: str, deadline_s: float
) -> tuple[Wanted, ...]:
    """The needs of a task, read on a copy that the agent never touches. Raises VerifierError for a need that fails."""
    database, found = Database.open(source, key=key, deadline_s=deadline_s), []
    try:
        for need in needs:
            result = database.run(need["sql"])
            if result.error:
                raise VerifierError(f"the look-up '{need['sql']}' of the task fails: {result.error}")
            tables = frozenset(database.tables_read(need["sql"]))
            kind, column = need["kind"], need["column"]
            names = (column.rpartition("_")[2],) if kind == "rate" else (column, need["word"])
            found.append(Wanted(kind=kind, column=column, names=names, rows=result.rows, tables=tables))
    finally:
        database.close()
    return tuple(found)


def looked_up(needs: Sequence[Wanted], sql: str, result: QueryResult, n_shown: int, database: Database) -> bool:
    """Whether the first ``n_shown`` rows of ``result``, which is that of ``sql``, answer one of the needs:

    1. the query ran, and reads the tables that the need's own query reads;
    2. its whole result has at most ``MOST_TIMES`` as many rows as the need's;
    3. the rows shown hold the answer. Code, absence and rate: each row of the need stands in a row shown, in cells
       of its own, and column and word (rate: the currency) stand in the query or in that row, as whole words in any
       case. Date: a column of the name that is asked about shows in which form its dates are written. Absence without
       a code: the result has no row, and the query names column and word.
    """
    if result.error or not (told := [need for need in needs if need.told_by(sql, result, result.rows[:n_shown])]):
        return False
    read = set(database.tables_read(sql))
    return any(need.tables <= read for need in told)
