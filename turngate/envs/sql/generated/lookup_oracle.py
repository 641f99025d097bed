"""The oracle of look-up questions: it makes the look-ups that a question needs, and writes its query from what it read.

It knows which look-ups are needed and the frame of the query, never a literal that only the database holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from turngate.envs.sql.generated.content import Row
from turngate.envs.sql.generated.lookup_content import format_of, in_month
from turngate.envs.sql.generated.lookup_questions import marked_condition
from turngate.envs.sql.task import SqlTask
from turngate.errors import DataError


def looking_turns(asked: SqlTask) -> list[str]:
    """List tables, describe the one asked about, make each look-up, submit. Raises DataError if one says nothing."""
    assert isinstance(asked.database, bytes), "look-up questions are about generated databases"
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize(asked.database)
        read = [connection.execute(need["sql"]).fetchall() for need in asked.needs]
    finally:
        connection.close()
    conditions = [condition_from(need, rows) for need, rows in zip(asked.needs, read, strict=True)]
    looks = [f"run_sql {need['sql']}" for need in asked.needs]
    return ["list_tables", f"describe {asked.tables[0]}", *looks, f"submit {asked.frame.format(*conditions)}"]


def condition_from(need: Mapping[str, str], rows: Sequence[Row]) -> str:
    """The condition that the rows of its look-up lead to. Raises DataError where they do not hold the needed value."""
    column, word = need["column"], need["word"]
    match need["kind"]:
        case "code" if len(rows) == 1:
            return marked_condition(column, str(rows[0][0]))
        case "absence":  # a state without a code is NULL
            return marked_condition(column, str(rows[0][0]) if rows else None)
        case "date":
            year, month = map(int, word.split("-"))
            return in_month(column, format_of([value for (value,) in rows]), year, month)
        case "rate" if rows:
            return f"{column} {word}*{rows[0][0]}"
    raise DataError("look-up", f"'{need['sql']}' does not tell what '{word}' is in column '{column}'")
