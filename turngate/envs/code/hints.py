"""Hints of a repair problem: what fails, in which files, in which functions, and the first step of the repair.

A repair with a single hunk has no first step that is not the whole of it; its last hint shows the lines that change.
"""

from __future__ import annotations

import ast
import difflib
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import groupby

from turngate.envs.code.source import TooDeep, parse_module
from turngate.envs.leak import stands

MOST_TESTS = 5


def hints(
    failing: Sequence[str], found: Mapping[str, str | None], solved: Mapping[str, str | None], patch: str
) -> tuple[str, ...]:
    """Up to four, each saying more than the one before; a level without content is left out.

    ``found`` and ``solved``: the texts of the files that the reference repair changes, before and after it.
    """
    more = len(failing) - MOST_TESTS
    tests = ", ".join(failing[:MOST_TESTS]) + (f" and {more} more" if more > 0 else "")
    names = [
        f"{name} in {path}"
        for path, text in sorted(solved.items())
        for name in sorted(changed_functions(found[path] or "", text or ""))
    ]
    levels = (
        (tests, f"Failing tests: {tests}."),
        (solved, f"Files to change: {', '.join(sorted(solved))}."),
        (names, f"Functions to change: {', '.join(names)}."),
        (patch, _first_step(patch)),
    )
    return tuple(text for known, text in levels if known and text)


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
        tree = parse_module(source)
    except TooDeep:
        return {}
    if tree is None:
        return {}
    places: dict[int, str] = dict.fromkeys(range(1, source.count("\n") + 2), "<module>")
    waiting: deque[tuple[ast.AST, str]] = deque([(tree, "")])
    while waiting:  # those outside before those inside, which take over their lines
        node, above = waiting.popleft()
        name = above
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{above}.{node.name}" if above else node.name
            if not isinstance(node, ast.ClassDef):
                start = min([node.lineno, *(item.lineno for item in node.decorator_list)])
                places.update(dict.fromkeys(range(start, (node.end_lineno or start) + 1), name))
        waiting.extend((child, name) for child in ast.iter_child_nodes(node))
    return places


def added_text(patch: str) -> tuple[str, ...]:
    """The text that a repair adds, if it is in one place and was not there before; empty for a repair that writes in
    several places, or only deletes."""
    lines = [line for line in patch.splitlines() if line[:3] not in ("+++", "---")]
    before = "\n".join(line[1:] for line in lines if line[:1] in ("-", " "))
    blocks = [list(block) for added, block in groupby(lines, lambda line: line[:1] == "+") if added]
    if len(blocks) != 1:
        return ()
    text = "\n".join(line[1:] for line in blocks[0])
    return () if stands(text, before) else (text,)


def _first_step(patch: str) -> str:
    if sum(line.startswith("@@") for line in patch.splitlines()) != 1:
        return f"The first change:\n{first_hunk(patch)}"
    found = [line[1:] for line in first_hunk(patch).splitlines() if line[:1] in ("-", " ") and line[:3] != "---"]
    return "The change is among these lines:\n" + "\n".join(found) if found else ""


def first_hunk(patch: str) -> str:
    """The head and the first hunk of a unified diff."""
    lines = patch.splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if not heads:
        return ""
    ends = [n for n in range(heads[0] + 1, len(lines)) if lines[n].startswith(("@@", "--- "))]
    return "\n".join(lines[: ends[0] if ends else len(lines)])
