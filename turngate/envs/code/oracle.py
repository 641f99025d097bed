"""The reference repair through the agent's tools."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator

from turngate.envs.code.engine.edits import occurs_once
from turngate.envs.code.problem import Problem

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


def oracle_actions(problem: Problem) -> tuple[str, ...]:
    """Look at each file that changes, change it piece by piece, run the tests, submit."""
    actions = []
    for path, text in sorted(problem.solved.items()):
        before = problem.found(path)
        if text is None:
            actions.append(call("bash", command=f"rm -f -- '{path}'"))
        elif before is None:
            actions.append(call("edit", path=path, new=text))
        else:
            actions.append(f"view {path}")
            actions += [edit(path, old, new, now) for old, new, now in replacements(before, text)]
    return (*actions, "run_tests", "submit")


def edit(path: str, old: str, new: str, text: str) -> str:
    """One replacement, as a command with as little as tells its place if it lies in one line, else as a tool call.

    ``text``: the file before it.
    """
    short_old, short_new = piece(old.strip(), new.strip(), text)
    is_line = bool(short_old) and "\n" not in short_old + short_new and "=>" not in old + new
    if is_line and occurs_once(short_old, text) and text.replace(short_old, short_new) == text.replace(old, new, 1):
        return f"edit {path} {short_old} => {short_new}"
    return call("edit", path=path, old=old, new=new)


def piece(old: str, new: str, text: str) -> tuple[str, str]:
    """The smallest part of ``old`` around the difference, in whole words and marks, that occurs once in ``text``; and
    the same part of ``new``. Neither is empty or ends in a space."""
    olds, news = _WORD.findall(old), _WORD.findall(new)
    same = [one == other for one, other in zip(olds, news, strict=False)]
    low = same.index(False) if False in same else len(same)
    rest = [one == other for one, other in zip(reversed(olds[low:]), reversed(news[low:]), strict=False)]
    tail = rest.index(False) if False in rest else len(rest)
    for first, after in _wider(low, tail):
        parts = ["".join(words[first : len(words) - after]) for words in (olds, news)]
        if all(part and part == part.strip() for part in parts) and occurs_once(parts[0], text):
            return parts[0], parts[1]
    return old, new


def _wider(low: int, tail: int) -> Iterator[tuple[int, int]]:
    """First the difference, then with more and more around it, to the right before to the left."""
    yield low, tail
    while low or tail:
        if tail:
            tail -= 1
            yield low, tail
        if low:
            low -= 1
            yield low, tail


def call(name: str, **arguments: str) -> str:
    """A tool call as chat models write it."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def replacements(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    """(old, new, the text that it applies to), one for each place that differs; old occurs once in that text."""
    old_lines, new_lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    blocks = [op for op in difflib.SequenceMatcher(None, old_lines, new_lines, False).get_opcodes() if op[0] != "equal"]
    lines, moved = list(old_lines), 0
    for _, start, end, new_start, new_end in blocks:
        first, last = start + moved, end + moved
        new = new_lines[new_start:new_end]
        text = "".join(lines)
        low, high = _widen(lines, first, last, text)
        yield "".join(lines[low:high]), "".join([*lines[low:first], *new, *lines[last:high]]), text
        lines[first:last] = new
        moved += len(new) - (end - start)


def _widen(lines: list[str], first: int, last: int, text: str) -> tuple[int, int]:
    """The fewest lines around [first, last) whose text occurs once."""
    low, high = first, last
    while low == high or not occurs_once("".join(lines[low:high]), text):
        if low == 0 and high == len(lines):
            break  # the whole text, which occurs once unless it is empty
        low, high = max(low - 1, 0), min(high + 1, len(lines)) if low == 0 or high < len(lines) else high
    return low, high
