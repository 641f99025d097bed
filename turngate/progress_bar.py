"""The progress bar of a long command, and lines printed above it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

LINE_S = 30.0
"""Where output is no terminal, seconds from one line of progress to the next."""


class Progress:
    """A bar named ``title``; use it as a context manager. Where output is no terminal, a line now and then.

    ``transient``: the bar is shown on a terminal only, and removed at the end. ``clock``: seconds.
    """

    def __init__(
        self, console: Console, title: str, *, transient: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
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
        self._clock = clock
        self._count = Count(self._bar, title, clock)

    def update(self, done: int, total: int, note: str = "") -> None:
        """Show that ``done`` of ``total`` are done, with ``note`` behind the bar."""
        self._count.update(done, total, note)

    def episodes(self, done: int, total: int, success: float | None) -> None:
        """The same of an evaluation; ``success``: the share of usable episodes so far, None where it is not known."""
        self._count.episodes(done, total, success)

    def found(self, result: str) -> None:
        """Show ``result`` behind every further note."""
        self._count.found = result

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def within(self, title: str) -> Iterator[Count]:
        """A bar below this one for a part of the work, removed at the end of the block; lines where there is no
        terminal, as of any bar."""
        count = Count(self._bar, title, self._clock)
        try:
            yield count
        finally:
            self._bar.remove_task(count.task)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()


class Count:
    """A line of a bar, or the lines that stand for it where output is no terminal."""

    def __init__(self, bar: Bar, title: str, clock: Callable[[], float]) -> None:
        self.task: TaskID = bar.add_task(title, total=None, note="")
        self.found = ""
        self._bar, self._title, self._clock = bar, title, clock
        self._told_s, self._first = clock(), (0, clock())

    def update(self, done: int, total: int, note: str = "") -> None:
        """Show that ``done`` of ``total`` are done, with ``note`` behind the bar."""
        note = ", ".join(filter(None, (note, self.found)))
        self._bar.update(self.task, completed=done, total=total, note=note)
        if done and not self._first[0]:
            self._first = (done, self._clock())
        console = self._bar.console
        if not console.is_terminal and self._clock() - self._told_s >= LINE_S:
            self._told_s = self._clock()
            line = [f"{self._title}: {done} of {total}", *self._pace(done, total), *([note] if note else [])]
            console.print(", ".join(line), markup=False, highlight=False, soft_wrap=True)

    def episodes(self, done: int, total: int, success: float | None) -> None:
        """The same of an evaluation; ``success``: the share of usable episodes so far, None where it is not known."""
        self.update(done, total, "" if success is None else f"{success:.0%} solved")

    def _pace(self, done: int, total: int) -> list[str]:
        """How fast it goes, and for how long it will go on, once two updates can be compared."""
        before, at_s = self._first
        passed_s = self._clock() - at_s
        if done <= before or not passed_s:
            return []
        rate = (done - before) / passed_s
        left_s = (total - done) / rate
        return [
            f"{rate:.3g} a second" if rate >= 0.1 else f"{60 * rate:.3g} a minute",
            f"{left_s:.0f} s left" if left_s < 100 else f"{left_s / 60:.0f} min left",
        ]
