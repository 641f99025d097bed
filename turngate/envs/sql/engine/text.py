"""Results as an agent reads them: compact plain text within a budget of rows and characters."""

from turngate.envs.sql.engine.database import Cell, QueryResult

CELL_CHARS = 60
ELLIPSIS = "…"


def result_text(result: QueryResult, *, max_rows: int, max_chars: int) -> str:
    """The head of a result: column names, rows with cells apart by `` | ``, then the true number of rows.

    The last line says how many rows are shown if not all are. At most ``max_rows`` rows and ``max_chars`` characters.
    """
    if result.error:
        return clip(f"error: {result.error}", max_chars)
    lines = row_lines(result, max_rows=max_rows, max_chars=max_chars)
    header = clip(" | ".join(result.columns), _room(result, max_rows, max_chars))
    return "\n".join([header, *lines, _footer(result, len(lines))])


def row_lines(result: QueryResult, *, max_rows: int, max_chars: int) -> list[str]:
    """The lines of the first rows of a result, as many as ``result_text`` shows; none if there is no room for one."""
    room = _room(result, max_rows, max_chars) - len(" | ".join(result.columns))
    lines: list[str] = []
    for row in result.rows[:max_rows]:
        line = " | ".join([cell_text(cell) for cell in row])
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return lines


def cell_text(cell: Cell) -> str:
    """One value on one line, at most ``CELL_CHARS`` long. A blob is shown as the hexadecimal literal that it is."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'" if len(cell) <= 16 else f"x'{cell[:16].hex()}{ELLIPSIS}'"
    text = str(cell)
    if len(text) > CELL_CHARS:
        text = text[: CELL_CHARS - 1] + ELLIPSIS
    return text if text.isprintable() else " ".join(text.split())


def clip(text: str, max_chars: int) -> str:
    """``text`` cut to ``max_chars``, with an ellipsis where it was cut."""
    return text if len(text) <= max_chars else text[: max(max_chars - 1, 0)] + ELLIPSIS


def _room(result: QueryResult, max_rows: int, max_chars: int) -> int:
    """Characters for column names and rows; a negative number equals no count, so its footer is the longest."""
    return max_chars - len(_footer(result, -max_rows)) - 1


def _footer(result: QueryResult, shown: int) -> str:
    count = f"more than {len(result.rows)}" if result.count is None else str(result.count)
    noun = "row" if count == "1" else "rows"
    return f"({count} {noun})" if result.count == shown else f"({count} {noun}, {shown} shown)"
