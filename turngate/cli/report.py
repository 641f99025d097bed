"""``turngate report``: print the tables of a run again and redraw its curves."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.report.summary import write_report


def report(console: Console, run: Path) -> None:
    """Print the tables of a run and redraw its curves."""
    write_report(run, console)
