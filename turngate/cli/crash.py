"""Unexpected exceptions: one line that says whose code raised it, turngate's or the user's, and a traceback file."""

from __future__ import annotations

import re
import sys
import traceback
from importlib import metadata
from pathlib import Path
from types import TracebackType

OWN = "turngate"


class Crash(Exception):
    """Raised from the unexpected exception of a command, whose traceback was written to the file ``path``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path


def write_traceback(error: Exception, path: Path) -> bool:
    """Write the traceback to ``path``; returns whether that was possible."""
    try:
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    except OSError:
        return False
    return True


def crash_line(error: BaseException) -> str:
    """One line for the user: whose code failed, with which exception, and where the traceback is."""
    cause = error.__cause__ if isinstance(error, Crash) and isinstance(error.__cause__, Exception) else error
    said = " ".join(str(cause).split())
    what = type(cause).__name__ + (f": {said[:300]}" if said else "")
    where = f"its traceback is in {error.path}" if isinstance(error, Crash) else "turngate --debug COMMAND shows where"
    part = culprit(cause)
    if part is None:
        return f"a bug of turngate: {what}; {where}; please report it with that"
    return f"{part} raised {what}; {where}"


def culprit(error: BaseException) -> str | None:
    """``'module' (file, line)`` of the code outside turngate that caused the error; None if turngate itself did.

    The innermost frame decides, but frames of Python's library and of packages that turngate requires are passed over:
    an error in them is blamed on their caller.
    """
    passed_over = sys.stdlib_module_names | _required()
    for frame, line in reversed(list(_frames(error.__traceback__))):
        module = str(frame.get("__name__", ""))
        top = module.partition(".")[0]
        if top == OWN:
            return None
        if top not in passed_over or top == "__main__":
            return f"'{module}' ({frame.get('__file__', 'no file')}, line {line})"
    return None


def _frames(step: TracebackType | None) -> list[tuple[dict[str, object], int]]:
    found = []
    while step is not None:
        found.append((step.tb_frame.f_globals, step.tb_lineno))
        step = step.tb_next
    return found


def _required() -> frozenset[str]:
    try:
        lines = metadata.requires(OWN) or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed; typer ends every command by SystemExit
        lines = ["typer"]
    return frozenset(re.split(r"[^\w.-]", line, maxsplit=1)[0].replace("-", "_") for line in lines)
