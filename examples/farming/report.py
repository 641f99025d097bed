"""What is written about the runs: every number as CSV, a figure, and the tables of the page.

Intervals are Student's 95 % intervals of the mean over seeds: seeds are the unit, not episodes.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from examples.farming.env import MAX_TURNS, RUBRICS
from examples.farming.learn import Log, Point
from turngate.errors import ConfigError, DataError

MEASURES = {
    "success": "share of episodes that open the lock",
    "looks": "farming events (looks) per episode",
    "paid": "reward paid per episode",
}
CEILINGS = {"success": 1.0, "looks": float(MAX_TURNS)}
COLOURS = {"summed": "#D55E00", "gated": "#0072B2"}  # of Okabe and Ito, which people with any colour vision tell apart
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"

# 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
MOST_SEEDS = len(STUDENT) + 1


class Interval(NamedTuple):
    """A mean between its bounds, which are the mean itself where there is one seed only."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """``mean ± t·s/√n`` with s of ddof 1. Raises ConfigError for no value or more than ``MOST_SEEDS``."""
    n = len(values)
    if not 1 <= n <= MOST_SEEDS:
        raise ConfigError(f"{n} seeds: an interval needs 1 to {MOST_SEEDS}")
    half = STUDENT[n - 2] * stdev(values) / sqrt(n) if n > 1 else 0.0
    return Interval(fmean(values), fmean(values) - half, fmean(values) + half)


def write_csv(logs: Sequence[Log], path: Path) -> None:
    """One line for each run, split and update."""
    with path.open("w", newline="") as file:
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
    means = [interval(values) for values in zip(*curves, strict=True)]
    x, colour, top = range(len(means)), COLOURS[rubric], CEILINGS[measure]
    for values in curves:
        axes.plot(x, values, color=colour, linewidth=0.7, alpha=0.5)
    axes.plot(x, [found.mean for found in means], color=colour, linewidth=2.2, label=f"{rubric} rewards")
    low, high = [max(found.low, 0.0) for found in means], [min(found.high, top) for found in means]
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


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
    before, after = [], []
    for log in logs:
        if log.rubric == rubric:
            first, *_, last = [getattr(point, measure) for point in log.points if point.split == "heldout"]
            before.append(first)
            after.append(last)
    each = ", ".join(f"{value:.2f}" for value in after)
    return f"| {MEASURES[measure]} | {rubric} | {_said(before)} | {_said(after)} | {each} |"


def _said(values: Sequence[float]) -> str:
    found = interval(values)
    return f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


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
    page, (begin, end) = path.read_text(), marks(name)
    if not 0 <= page.find(begin) < page.find(end):
        raise DataError(path, f"has no place for results: it needs the lines '{begin}' and '{end}'")
    before, _, rest = page.partition(begin)
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")
