"""Tests that are held back: removed from the text of a test file, so that an agent cannot fit its repair to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from random import Random

from turngate.envs.code.generated.mutation.coverage import file_of
from turngate.envs.code.grading.forms import function_of


def hold_back(failing: Collection[str], texts: Mapping[str, str], rng: Random) -> tuple[dict[str, str], frozenset[str]]:
    """Half (rounded down) of the failing test functions; and test file → its text without them, where it changes.

    At least one failing function stays. A function whose text cannot be cut out cleanly stays too.
    """
    functions = sorted({function_of(test) for test in failing})
    shortened: dict[str, str] = {}
    held = set[str]()
    for function in rng.sample(functions, len(functions) // 2):
        path = file_of(function)
        text = without(shortened.get(path, texts[path]), function.partition("::")[2].replace("::", "."))
        if text is not None:
            shortened[path] = text
            held.add(function)
    return shortened, frozenset(held)


def without(source: str, name: str) -> str | None:
    """The text without one function, its decorators and the comments right above it.

    None if there is not exactly one of that name, if it is all that its class has, if its name is used elsewhere, or if
    the rest does not parse.
    """
    found = _find(ast.parse(source), name.split("."))
    if found is None:
        return None
    lines = source.splitlines(keepends=True)
    if len(lines) != source.count("\n") + (not source.endswith("\n")):
        return None  # other line ends than the parser counts
    start = min([found.lineno, *(item.lineno for item in found.decorator_list)]) - 1
    end = found.end_lineno or found.lineno
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    while end < len(lines) and not lines[end].strip():
        end += 1
    shortened = "".join([*lines[:start], *lines[end:]])
    if re.search(rf"\b{re.escape(found.name)}\b", shortened):
        return None
    try:
        ast.parse(shortened)
    except SyntaxError:
        return None
    return shortened


def _find(module: ast.Module, names: list[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of that name, if there is one only and its class has another."""
    body = module.body
    for name in names[:-1]:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == name]
        if len(classes) != 1:
            return None
        body = classes[0].body
    functions = [
        node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == names[-1]
    ]
    return functions[0] if len(functions) == 1 and len(body) > 1 else None
