"""Where an edit happens: the text of a function's nodes, and what else an operator of ``mutate.py`` must know.

Operators read the syntax tree and write text. What an edit replaces is the span of a node or of the gap between two, so
everything around it, comments and layout too, stays as it is.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

_LINE_END = re.compile(r"\r\n|\r|\n")


class Replacement(NamedTuple):
    """Characters ``start`` to ``end`` of the source become ``replacement``."""

    start: int
    end: int
    replacement: str


class Text:
    """A source with the offsets of its lines, as the parser counts them: a form feed does not end a line."""

    def __init__(self, source: str) -> None:
        self.source = source
        ends = [match.end() for match in _LINE_END.finditer(source)]
        self._starts = [0, *ends]
        self._lines = [source[start:end] for start, end in zip(self._starts, [*ends, len(source)], strict=True)]

    def offset(self, line: int, column: int) -> int:
        """The parser's position (line from 1, column in UTF-8 bytes) → offset in characters."""
        text = self._lines[line - 1]
        inside = column if text.isascii() else len(text.encode()[:column].decode())
        return self._starts[line - 1] + inside

    def line(self, offset: int) -> int:
        """The line (from 1) of an offset."""
        return bisect_right(self._starts, offset)

    def start(self, node: ast.expr | ast.stmt | ast.keyword | ast.excepthandler) -> int:
        """Where a node begins, without brackets around it."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.keyword | ast.excepthandler) -> int:
        """Where a node ends."""
        assert node.end_lineno is not None  # the parser always sets them
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        return self.source[self.start(node) : self.end(node)]

    def replace(self, node: ast.expr | ast.stmt, replacement: str) -> Replacement:
        """The edit of a whole node."""
        return Replacement(self.start(node), self.end(node), replacement)

    def between(self, left: ast.expr, right: ast.expr | ast.keyword, token: str) -> tuple[int, int] | None:
        """The span of an operator between two operands; None if a comment there could be taken for it."""
        start = self.end(left)
        gap = self.source[start : self.start(right)]
        words = re.escape(token).replace(r"\ ", r"\s+")
        match = re.search(rf"\b{words}\b" if token[0].isalpha() else words, gap)
        return None if match is None or "#" in gap else (start + match.start(), start + match.end())


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A node in a function."""

    text: Text
    parents: tuple[ast.AST, ...]
    """The nodes above it, the nearest last."""
    names: Mapping[str, int]
    """Local names of the function → the line from which on they have a value; parameters have one from its first."""

    @property
    def parent(self) -> ast.AST:
        """The node above it."""
        return self.parents[-1]


Operator: TypeAlias = Callable[[ast.AST, Site], Iterator[Replacement]]
"""The ways in which one kind of bug can be made at a node; none for most nodes."""


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    """``Site.names`` of a function. Names of nested functions are their own."""
    parameters = function.args
    named = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    names = {item.arg: function.lineno for item in named if item.arg not in ("self", "cls")}
    names |= {item.arg: function.lineno for item in (parameters.vararg, parameters.kwarg) if item is not None}
    stored: dict[str, int] = {}
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue  # names of a comprehension are unknown outside of it
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = min(node.lineno, stored.get(node.id, node.lineno))
        queue.extend(ast.iter_child_nodes(node))
    return names | {name: line for name, line in sorted(stored.items(), key=lambda item: item[1]) if name not in names}
