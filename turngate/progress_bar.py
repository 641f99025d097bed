"""The progress bar of a long command, and lines printed above it."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """A bar named ``title``; use it as a context manager.

    ``transient``: the bar is shown on a terminal only, and removed at the end.
    """

    def __init__(self, console: Console, title: str, *, transient: bool = False) -> None:
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=transient,
            disable=transient and not console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=None, note="")

    def update(self, done: int, total: int, note: str) -> None:
        """Show that ``done`` of ``total`` are done, with ``note`` behind the bar."""
        self._bar.update(self._task, completed=done, total=total, note=note)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()
