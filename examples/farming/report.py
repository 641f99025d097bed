"""What is written about the runs: every number as CSV, a figure, and the tables of the page.

Intervals are of the mean over seeds (see ``examples.intervals``): seeds are the unit, not episodes.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from examples.farming.env import MAX_TURNS, RUBRICS
from examples.farming.learn import Log, Point
from examples.intervals import interval
from examples.measured import said, trials
from turngate.errors import DataError

MEASURES = {
    "success": "share of episodes that open the lock",
    "looks": "farming events (looks) per episode",
    "paid": "reward paid per episode",
}
CEILINGS = {"success": 1.0, "looks": float(MAX_TURNS)}
COLOURS = {"summed": "#D55E00", "gated": "#0072B2"}  # of Okabe and Ito, which people with any colour vision tell apart
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_csv(logs: Sequence[Log], path: Path) -> None:
    """One line for each run, split and update."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(Point._fields)
        for log in logs:
            for point in log.points:
                lines.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in point])


# --- figure ----------------------------------------------------------------------------------------------------------


def write_figure(logs: Sequence[Log], path: Path) -> None:
    """Success and farming events over the updates, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seeds = sorted({log.seed for log in logs})
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    figure.suptitle(
        f"HackableLock-v0: the same rewards summed and gated (seeds {', '.join(map(str, seeds))})\n"
        "training episodes, sampled; thin: one seed; bold: mean; band: 95 % interval of the mean over seeds",
        fontsize=11,
    )
    for axes, measure in zip(figure.subplots(1, 2), ("success", "looks"), strict=True):
        for rubric in RUBRICS:
            _draw(axes, [log for log in logs if log.rubric == rubric], measure)
        axes.set_xlabel("updates")
        axes.set_ylabel(MEASURES[measure])
        axes.set_ylim(-0.02 * CEILINGS[measure], 1.02 * CEILINGS[measure])
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="center right")
    FigureCanvasAgg(figure).print_figure(path)


def _draw(axes: Any, logs: Sequence[Log], measure: str) -> None:
    rubric, curves = logs[0].rubric, [curve(log, measure) for log in logs]
    means = [interval(values, low=0, high=CEILINGS[measure]) for values in zip(*curves, strict=True)]
    x, colour = range(len(means)), COLOURS[rubric]
    for values in curves:
        axes.plot(x, values, color=colour, linewidth=0.7, alpha=0.5)
    axes.plot(x, [found.mean for found in means], color=colour, linewidth=2.2, label=f"{rubric} rewards")
    axes.fill_between(
        x, [found.low for found in means], [found.high for found in means], color=colour, alpha=0.18, linewidth=0
    )


def curve(log: Log, measure: str) -> list[float]:
    """A measure of the training episodes, update by update."""
    return [getattr(point, measure) for point in log.points if point.split == "train"]


# --- tables ----------------------------------------------------------------------------------------------------------


def tables(logs: Sequence[Log]) -> str:
    """Held-out results before and after, and the monitors' alarms, as Markdown."""
    return "\n".join(
        [
            "| held-out tasks, mean over seeds [95 %] | rubric | before | after | after, seed by seed |",
            "|---|---|---|---|---|",
            *[_result(logs, rubric, measure) for measure in MEASURES for rubric in RUBRICS],
            "",
            "| alarm: seeds with it, after which updates, share of all updates | summed | gated |",
            "|---|---|---|",
            *_alarms(logs),
        ]
    )


def _result(logs: Sequence[Log], rubric: str, measure: str) -> str:
    own, cells = [log for log in logs if log.rubric == rubric], []
    after: list[float] = []
    for place, phase in ((0, "before"), (-1, "after")):
        after = [[getattr(one, measure) for one in log.points if one.split == "heldout"][place] for log in own]
        asked = trials((one for log in own for one in log.played), "heldout", "sampled", phase)
        known = asked if measure == "success" else 0
        cells.append(said(after, low=0, high=CEILINGS.get(measure, inf), trials=known))
    each = ", ".join(f"{value:.2f}" for value in after)
    return f"| {MEASURES[measure]} | {rubric} | {' | '.join(cells)} | {each} |"


def _alarms(logs: Sequence[Log]) -> list[str]:
    names = sorted({name for log in logs for point in log.points for name in point.alarms.split()})
    return [f"| {name} | {_when(logs, 'summed', name)} | {_when(logs, 'gated', name)} |" for name in names]


def _when(logs: Sequence[Log], rubric: str, name: str) -> str:
    train = [point for log in logs if log.rubric == rubric for point in log.points if point.split == "train"]
    on = [point for point in train if name in point.alarms.split()]
    if not on:
        return "none"
    updates = [point.update for point in on]
    seeds, of = len({point.seed for point in on}), len({point.seed for point in train})
    return f"{seeds} of {of}, {min(updates)} to {max(updates)}, {len(on) / len(train):.0%}"


def marks(name: str = "") -> tuple[str, str]:
    """The lines of a page between which results stand; ``name`` where it has several such places."""
    return (BEGIN, END) if not name else (f"<!-- measured {name}: begin -->", f"<!-- measured {name}: end -->")


def write_page(text: str, path: Path, name: str = "") -> None:
    """Put ``text`` between the ``marks`` of a page. Raises DataError for a page without them."""
    page, (begin, end) = path.read_text(encoding="utf-8"), marks(name)
    if not 0 <= page.find(begin) < page.find(end):
        raise DataError(path, f"has no place for results: it needs the lines '{begin}' and '{end}'")
    before, _, rest = page.partition(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}", encoding="utf-8")
