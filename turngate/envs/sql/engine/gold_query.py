"""The rows that the answer to a question is compared with: those of its gold query."""

from __future__ import annotations

from turngate.envs.sql.engine.database import Database, Row
from turngate.errors import VerifierError

GOLD_ROWS = 100_000  # a larger gold result cannot be compared


def gold_rows(source: bytes | str, sql: str, *, key: str, deadline_s: float, backwards: bool = False) -> list[Row]:
    """The rows of a gold query, run on a copy of its own; ``backwards``: see ``Database.run_backwards``.

    Raises VerifierError if it fails, is empty or too large.
    """
    database = Database.open(source, key=key, deadline_s=deadline_s)
    try:
        if backwards:
            result = database.run_backwards(sql, keep=GOLD_ROWS)
        else:
            result = database.run(sql, keep=GOLD_ROWS, count=False)
    finally:
        database.close()
    if result.error:
        raise VerifierError(f"the gold query fails: {result.error}")
    if not result.rows:
        raise VerifierError("the gold query returns no rows, so there is nothing to compare with")
    if not result.complete:
        raise VerifierError(f"the gold query returns more than can be compared ({GOLD_ROWS} rows)")
    return list(result.rows)
