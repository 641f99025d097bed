"""The evidence of ``turngate/Sql-v1``, and the form in which rows of results are recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turngate.envs.glossary import meanings
from turngate.envs.sql.engine.database import Cell, Row
from turngate.types import JSON, storable

MOST_CELLS = 2_000
"""Most cells of a result that are recorded."""
CELL_CHARS = 1_000
"""Most characters of a cell that are recorded."""

EVIDENCE = {
    **meanings("reply", "submitted", "correct", "gold_query", "rows", "gold_rows", "ordered", "repeated"),
    "executes": "whether the query of the turn ran without an error",
    "empty": "whether the query of the turn ran and found no rows",
    "write_attempt": "recorded where it happens: the query tried to change the database or to leave it",
    "timed_out": "recorded where it happens: the query took too long",
    "looked_up": "whether the query of the turn showed what the question needs looked up",
}


def recorded_rows(rows: Sequence[Row]) -> JSON:
    """Rows as JSON: bytes as ``x'…'`` in hex, numbers that are not finite as text; None for too many cells."""
    if sum(map(len, rows)) > MOST_CELLS:
        return None
    return [[cell if type(cell) in _AS_IT_IS else _recorded(cell) for cell in row] for row in rows]


_AS_IT_IS = frozenset({int, type(None)})


def _recorded(cell: Cell) -> JSON:
    if isinstance(cell, bytes):
        return storable(f"x'{cell.hex()}'", CELL_CHARS)
    if isinstance(cell, str):
        return cell if len(cell) <= CELL_CHARS and cell.isascii() else storable(cell, CELL_CHARS)
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
