"""An edit, and its effect on a text: replacing a piece that occurs once, or inserting after a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

FORMS = (
    "edit PATH OLD => NEW (pieces of one line), or edit PATH +LINE TEXT (insert after that line), "
    "or edit PATH and then the lines <<<<<<< OLD ======= NEW >>>>>>> with the texts between"
)
_BLOCK = re.compile(r"\A<{5,}[^\n]*\n(?P<old>.*?)^={5,}[ \t]*\n(?P<new>.*?)^>{5,}[^\n]*\s*\Z", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[0-9]{1,9}")
_INSERT = re.compile(r"\A\+(?P<line>[0-9]{1,9})(?:[ \t]|\n|\Z)(?P<text>.*)\Z", re.DOTALL)


class BadEdit(Exception):
    """An edit that cannot be carried out; the text is for the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """``line`` None: replace ``old`` by ``new``; else insert ``new`` after that line, 0 = before the first."""

    old: str = ""
    new: str = ""
    line: int | None = None


def read_edit(
    *, change: str = "", old: str | None = None, new: str | None = None, line: str | int | None = None
) -> Edit:
    """The edit that a call asks for. Raises BadEdit."""
    if change:
        return _read_change(change)
    place = "" if line is None else str(line).strip()
    if place:
        if not _NUMBER.fullmatch(place):
            raise BadEdit(f"line is '{place[:20]}'; it must be a number, 0 inserts before the first line")
        return Edit(line=int(place), new=_whole_lines(new or ""))
    if old is None and new is None:
        raise BadEdit(f"nothing to change was given; write {FORMS}")
    return Edit(old=old or "", new=new or "")


def _read_change(change: str) -> Edit:
    if block := _BLOCK.match(change):
        return Edit(old=block["old"], new=block["new"])
    if insert := _INSERT.match(change):
        return Edit(line=int(insert["line"]), new=_whole_lines(insert["text"]))
    old, arrow, new = change.partition("=>")
    if not arrow or "\n" in change.strip():
        raise BadEdit(f"the change could not be read; write {FORMS}")
    return Edit(old=old.strip(), new=new.strip())


def _whole_lines(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def apply_edit(edit: Edit, text: str | None, path: str) -> tuple[str, int]:
    """The new text, and the number of the first line that differs. ``text``: None if there is no such file.

    Raises BadEdit.
    """
    if edit.line is not None:
        return _insert(edit.line, edit.new, text, path)
    if text is None:
        if edit.old:
            raise BadEdit(f"there is no file '{path}'; to make one, leave OLD empty")
        return edit.new, 1
    if not edit.old:
        raise BadEdit(f"'{path}' exists; say which piece of it to replace")
    if edit.old == edit.new:
        raise BadEdit("OLD and NEW are the same; nothing would change")
    place = text.find(edit.old)
    if place < 0:
        raise BadEdit(f"OLD does not occur in '{path}'; copy it exactly as it stands in the file")
    if not occurs_once(edit.old, text):
        raise BadEdit(f"OLD occurs more than once in '{path}'; give more of its surroundings")
    return text[:place] + edit.new + text[place + len(edit.old) :], text.count("\n", 0, place) + 1


def occurs_once(piece: str, text: str) -> bool:
    """Whether there is one place at which ``piece`` begins; two that overlap are two."""
    return -1 < text.find(piece) == text.rfind(piece)


def _insert(line: int, new: str, text: str | None, path: str) -> tuple[str, int]:
    if text is None:
        raise BadEdit(f"there is no file '{path}'; to make one, replace an empty OLD")
    lines = text.splitlines(keepends=True)
    if line > len(lines):
        raise BadEdit(f"'{path}' has {len(lines)} lines; nothing can be inserted after line {line}")
    if lines and line == len(lines):
        lines[-1] = _whole_lines(lines[-1])
    return "".join([*lines[:line], new, *lines[line:]]), line + 1
