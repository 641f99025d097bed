"""Texts of modules as the interpreter reads them."""

from __future__ import annotations

import ast


class TooDeep(Exception):
    """A text is nested more deeply than can be read here. Somewhere else it may run."""


def parse_module(text: str) -> ast.Module | None:
    """The syntax tree of a text; None if it is no module. Raises TooDeep.

    A line that names an encoding counts, as it does for the interpreter: after ``# coding: unicode_escape`` an apparent
    comment can be code. A byte that is not UTF-8 is a lone surrogate in the text.
    """
    try:
        return ast.parse(text.encode("utf-8", "surrogateescape"))
    except (SyntaxError, ValueError):
        return None
    except (RecursionError, MemoryError):
        raise TooDeep from None


def parses(text: str) -> bool:
    """Whether a text is a module."""
    try:
        return parse_module(text) is not None
    except TooDeep:
        return False
