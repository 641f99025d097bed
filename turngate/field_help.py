"""The docstring below a field of a section or part, read from its source when it is asked for.

pydantic can read these docstrings, too, but does so when a class is made: for each of two hundred classes it searches
the source again, which took a third of the time in which a config is imported.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def field_help(model: type[BaseModel], name: str) -> str:
    """The help of a field: its description, else the docstring below it; a subclass that only redefines the field has
    the help of its base class. "" where there is none, and where the source cannot be read.
    """
    for base in model.__mro__:
        if not issubclass(base, BaseModel) or name not in base.model_fields:
            continue
        below = _docstrings(base.__module__).get(base.__qualname__, {}).get(name, "")
        if said := base.model_fields[name].description or below:
            return said
    return ""


@cache
def _docstrings(module: str) -> Mapping[str, Mapping[str, str]]:
    """{qualified name of a class: {field: docstring}} of a module; a class that is defined twice counts as the last."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):  # a class that was typed in, or whose module came without a file
        return {}
    return dict(_classes(tree.body, ""))


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield prefix + statement.name, _fields(statement.body)
            yield from _classes(statement.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, _FUNCTIONS):
            yield from _classes(statement.body, f"{prefix}{statement.name}.<locals>.")


def _fields(body: list[ast.stmt]) -> Mapping[str, str]:
    """The docstring below each annotated field."""
    found = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found
