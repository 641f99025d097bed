"""Guidance in a report: the amount of help, its effect on success, and whether the policy learned to do without."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from turngate.report.figure import COLOURS, Rows, curve_of, legend_below, new_figure, save_figure, tidy
from turngate.report.tables import print_table

PICTURE = "guidance.png"
SHARE, ALONE = "guide/guided_share", "guide/unguided_success"
_LIFT = re.compile(r"guide/lift_(\d+)")
PART = 10  # the first and the last of so many parts of the steps are compared


def was_guided(rows: Rows) -> bool:
    """Whether training had a guide, even one that helped no episode."""
    return any(SHARE in row for row in rows)


def tell_guidance(rows: Rows, console: Console) -> list[str]:
    """Print help and success, with help and without, at the beginning and at the end of training; returns the same as
    sections of ``summary.md``, none for a run without a guide."""
    if not was_guided(rows):
        return []
    n = max(1, len(rows) // PART)
    spans = [f"steps {_steps(part)}" for part in (rows[:n], rows[-n:])]
    lines = [(label, _cell(rows[:n], name), _cell(rows[-n:], name)) for label, name in _quantities(rows).items()]
    title = "guidance in training"
    console.print(f"\n{title}", highlight=False)
    table = Table("", *spans, box=None)
    for line in lines:
        table.add_row(*line)
    print_table(console, table)
    refused = sum(row.get("guide/refused_hints", 0.0) for row in rows)
    note = f"{refused:g} hints were refused because they hold the answer.\n" if refused else ""
    if note:
        console.print(note.strip(), highlight=False)
    cells = [("", *spans), ("---",) * 3, *lines]
    markdown = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    return [f"## {title}\n\n{markdown}\n\n{note}\n![Help and what it was worth]({PICTURE})\n"]


def plot_guidance(rows: Rows, path: Path, *, title: str) -> None:
    """Draw the share of episodes with help, the success of those without, and the lift of each level, by step.

    Raises MissingExtra without matplotlib.
    """
    figure = new_figure(9.2, 3.8)
    decay, lift = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    curves = {"episodes with help": SHARE, "success without help": ALONE, "conversion": "guide/conversion"}
    for number, (label, name) in enumerate(curves.items()):
        x, y = curve_of(rows, name)
        if len(x):
            decay.plot(x, y, ".-", color=COLOURS[number], linewidth=1.4, markersize=4, label=label, clip_on=False)
    decay.set_ylim(0, 1)
    decay.set_ylabel("share")
    for number, level in enumerate(_levels(rows), start=len(curves)):
        x, y = curve_of(rows, f"guide/lift_{level}")
        colour = COLOURS[number % len(COLOURS)]
        lift.plot(x, y, ".-", color=colour, linewidth=1.2, markersize=4, label=f"lift of level {level}")
    lift.axhline(0, color="#666666", linewidth=0.8)
    lift.set_ylim(-1.05, 1.05)
    lift.set_ylabel("success with help − success without")
    for axes in (decay, lift):
        tidy(axes, "training step")
    legend_below(figure, n_columns=4)
    save_figure(figure, path, title)


def _quantities(rows: Rows) -> Mapping[str, str]:
    """Label and metric of each line of the table; a level stands for success with its help."""
    levels = {f"success with help of level {level}": f"guide/lift_{level}" for level in _levels(rows)}
    found = {"episodes with help": SHARE, "success without help": ALONE, **levels, "conversion": "guide/conversion"}
    return {label: name for label, name in found.items() if any(name in row for row in rows)}


def _cell(rows: Rows, name: str) -> str:
    """The mean of a metric over the steps that have it; of a lift, with the success that it is added to."""
    added = ALONE if _LIFT.fullmatch(name) else ""
    values = [row[name] + (row[added] if added else 0.0) for row in rows if name in row]
    return f"{fmean(values):.1%}" if values else "–"


def _levels(rows: Rows) -> list[int]:
    return sorted({int(found[1]) for row in rows for name in row if (found := _LIFT.fullmatch(name))})


def _steps(rows: Sequence[Mapping[str, float]]) -> str:
    first, last = int(rows[0]["step"]), int(rows[-1]["step"])
    return f"{first}" if first == last else f"{first} to {last}"
