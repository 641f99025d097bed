"""Hints of a repair problem: what fails, in which files, in which functions, and the first step of the repair."""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngate.envs.code.problem import Problem

MOST_TESTS = 5


def hints(problem: Problem) -> tuple[str, ...]:
    """Up to four, each saying more than the one before; a level that nothing is known for is left out."""
    tests = problem.fail_to_pass[:MOST_TESTS]
    more = len(problem.fail_to_pass) - len(tests)
    said = f"Failing tests: {', '.join(tests)}{f' and {more} more' if more else ''}." if tests else ""
    files = f"Files to change: {', '.join(sorted(problem.solved))}."
    names = [
        f"{name} in {path}" for path, text in sorted(problem.solved.items()) for name in changed(problem, path, text)
    ]
    functions = f"Functions to change: {', '.join(names)}." if names else ""
    patch = first_hunk(problem.patch)
    return tuple(text for text in (said, files, functions, f"The first change:\n{patch}" if patch else "") if text)


def changed(problem: Problem, path: str, text: str | None) -> tuple[str, ...]:
    """The functions that the reference repair changes in one file, by their names with classes."""
    return tuple(sorted(changed_functions(problem.found(path) or "", text or "")))


def changed_functions(before: str, after: str) -> frozenset[str]:
    """Qualified names of the functions in which two texts of a module differ; those of a text that does not parse
    are not known. Code outside of functions counts as ``<module>``."""
    lines = (before.splitlines(), after.splitlines())
    touched: tuple[set[int], set[int]] = (set(), set())
    for _, a, b, c, d in (op for op in difflib.SequenceMatcher(None, *lines, False).get_opcodes() if op[0] != "equal"):
        touched[0].update(range(a + 1, b + 1))
        touched[1].update(range(c + 1, d + 1))
    names = set[str]()
    for source, numbers in zip((before, after), touched, strict=True):
        places = _functions(source)
        names.update(places.get(number, "<module>") for number in numbers if places)
    return frozenset(names)


def _functions(source: str) -> dict[int, str]:
    """Line → the innermost function that it belongs to; empty if the text does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    places: dict[int, str] = dict.fromkeys(range(1, source.count("\n") + 2), "<module>")

    def walk(node: ast.AST, above: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = above
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{above}.{child.name}" if above else child.name
                if not isinstance(child, ast.ClassDef):
                    start = min([child.lineno, *(item.lineno for item in child.decorator_list)])
                    places.update(dict.fromkeys(range(start, (child.end_lineno or start) + 1), name))
            walk(child, name)

    walk(tree, "")
    return places


def first_hunk(patch: str) -> str:
    """The head and the first hunk of a unified diff."""
    lines = patch.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if not heads:
        return ""
    ends = [n for n in range(heads[0] + 1, len(lines)) if lines[n].startswith(("@@", "--- "))]
    return "\n".join(lines[: ends[0] if ends else len(lines)])
