"""Two queries compared as texts: with their literals, and without."""

from __future__ import annotations

import re

# a text, an identifier in quotes, a number that is not the end of a name, or a stretch of blanks
_PIECE = re.compile(r"('(?:[^']|'')*')|(\"[^\"]*\"|`[^`]*`|\[[^\]]*\])|((?<![\w.])\d+(?:\.\d+)?\b)|(\s+)")


def normalised(sql: str) -> str:
    """The query in lower case, with single blanks and without the last semicolon; texts in quotes stay as they are."""
    return _pieces(sql, masked=False)


def skeleton(sql: str) -> str:
    """The same with ``?`` in place of every text and number."""
    return _pieces(sql, masked=True)


def _pieces(sql: str, *, masked: bool) -> str:
    """Rewrite the text between the literals; ``masked``: the literals too."""
    written, end = [], 0
    for piece in _PIECE.finditer(sql := sql.strip().rstrip("; \n\t")):
        text, _, number, blanks = piece.groups()
        written.append(sql[end : piece.start()].lower())
        written.append(" " if blanks else "?" if masked and (text or number) else text or piece[0].lower())
        end = piece.end()
    return "".join(written) + sql[end:].lower()
