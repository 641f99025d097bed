"""Curves of a run, or of several runs in one picture, as PNG files.

Raw values are faint lines and their moving average is a bold one; seeds are thin lines and their mean is a bold one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turngate.errors import DataError
from turngate.report.figure import (
    COLOURS,
    Floats,
    Point,
    Rows,
    as_curve,
    curve_of,
    legend_below,
    new_figure,
    save_figure,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOW_SHARE = 0.06  # the moving average spans this share of a curve


class CurvePanel(NamedTuple):
    """One plot of one metric over the steps; its y axis includes at least ``limits``."""

    metric: str
    title: str
    ylabel: str
    limits: tuple[float, float] | None = None


PANELS = (
    CurvePanel("train/success", "Success in training", "share of episodes", (0.0, 1.0)),
    CurvePanel("train/paid", "Reward paid", "reward per episode"),
    CurvePanel("policy/entropy_nats", "Entropy of the policy", "nats per token"),
    CurvePanel("policy/kl_to_sampler_nats", "Distance from the sampler", "KL, nats per token"),
    CurvePanel("train/turns", "Length", "turns per episode"),
)


def plot_curves(metrics: Rows | Mapping[str, Rows], path: str | Path, *, title: str) -> None:
    """Draw a panel for each of ``PANELS`` that the metrics contain, and one of the time that each stage took.

    ``metrics`` are the lines of ``read_metrics``, or a mapping from label to them, for several runs in one picture.
    Raises DataError when there is nothing to draw, and MissingExtra without matplotlib.
    """
    runs = metrics if isinstance(metrics, Mapping) else {"": metrics}
    panels = [panel for panel in PANELS if any(len(curve_of(rows, panel.metric)[0]) for rows in runs.values())]
    draws: list[Callable[[Axes], None]] = [partial(_draw_panel, panel=panel, runs=runs) for panel in panels]
    if any(_stages(rows) for rows in runs.values()):
        draws.append(partial(_draw_time, runs=runs))
    if not draws:
        wanted = ", ".join(panel.metric for panel in PANELS)
        raise DataError(path, f"nothing to draw: the metrics have none of {wanted}")
    n_columns = min(3, len(draws))
    n_rows = -(-len(draws) // n_columns)
    figure = new_figure(4.6 * n_columns, 3.1 * n_rows + 0.4)
    for number, draw in enumerate(draws, start=1):
        axes = figure.add_subplot(n_rows, n_columns, number)
        draw(axes)
        tidy(axes, "training step")
    if len(runs) > 1:
        legend_below(figure, n_columns=4)
    save_figure(figure, path, title)


def plot_runs(
    series: Mapping[str, Sequence[Sequence[Point]]], path: str | Path, *, ylabel: str, xlabel: str, title: str
) -> None:
    """Draw one colour per label; each of its seeds as a thin line and their mean as a bold one.

    ``series`` maps a label to one curve per seed, each a sequence of (x, y). The mean covers the x range that all seeds
    share; between the points of a seed it is interpolated. Raises DataError when there is nothing to draw, and
    MissingExtra without matplotlib.
    """
    drawn = {label: [curve for curve in map(as_curve, seeds) if len(curve)] for label, seeds in series.items()}
    if not any(drawn.values()):
        raise DataError(path, "nothing to draw: no curve has a point")
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    for number, (label, curves) in enumerate(drawn.items()):
        colour = COLOURS[number % len(COLOURS)]
        for curve in curves if len(curves) > 1 else ():
            axes.plot(curve[:, 0], curve[:, 1], color=colour, linewidth=0.8, alpha=0.45)
        mean = mean_curve(curves)
        marker = "o" if len(mean) <= 12 else None
        count = f"mean of {len(curves)} seeds" if len(curves) > 1 else f"{len(curves)} seed"
        axes.plot(mean[:, 0], mean[:, 1], color=colour, linewidth=2.2, marker=marker, label=f"{label} ({count})")
    axes.set_ylabel(ylabel)
    tidy(axes, xlabel)
    legend_below(figure, n_columns=2)
    save_figure(figure, path, title)


# --- the numbers -----------------------------------------------------------------------------------------------------


def smooth(values: Floats, window: int) -> Floats:
    """Centred moving average over ``window`` (odd) values; at both ends, over as many of them as there are."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    start, stop = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(values))
    return np.asarray((sums[stop] - sums[start]) / (stop - start))


def mean_curve(curves: Sequence[Floats]) -> Floats:
    """The mean of curves float64[n, 2], over the x range that all of them cover, at every x that one of them has.

    It is empty, [0, 2], if no x is covered by all curves.
    """
    if not curves:
        return np.zeros((0, 2))
    first, last = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    x = np.unique(np.concatenate([curve[:, 0] for curve in curves]))
    x = x[(x >= first) & (x <= last)]
    return np.stack([x, np.mean([np.interp(x, curve[:, 0], curve[:, 1]) for curve in curves], axis=0)], axis=1)


def _stages(rows: Rows) -> list[str]:
    """The timed stages of a run, the slowest first."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith("time/"))
    return sorted(names, key=lambda name: -sum(row.get(name, 0.0) for row in rows))


# --- drawing ---------------------------------------------------------------------------------------------------------


def _draw_panel(axes: Axes, panel: CurvePanel, runs: Mapping[str, Rows]) -> None:
    window = 1
    for number, (label, rows) in enumerate(runs.items()):
        x, y = curve_of(rows, panel.metric)
        if not len(x):
            continue
        colour = COLOURS[number % len(COLOURS)]
        window = max(1, 2 * int(len(x) * WINDOW_SHARE / 2) + 1)
        axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.3 if window > 1 else 1.0)
        axes.plot(x, smooth(y, window), color=colour, linewidth=2.0, label=label)
    axes.set_title(panel.title + (f" (bold: mean of {window} steps)" if window > 1 else ""), fontsize=10)
    axes.set_ylabel(panel.ylabel)
    if panel.limits:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, panel.limits[0]), max(high, panel.limits[1]))


def _draw_time(axes: Axes, runs: Mapping[str, Rows]) -> None:
    """Seconds per step: stacked by stage for one run, the total for several."""
    for number, (label, rows) in enumerate(runs.items()):
        stages = _stages(rows)
        x = np.array([row["step"] for row in rows], np.float64)
        seconds = np.nan_to_num(np.array([[row.get(stage, 0.0) for row in rows] for stage in stages]))
        if stages and len(runs) > 1:
            axes.plot(x, seconds.sum(axis=0), color=COLOURS[number % len(COLOURS)], linewidth=1.2, label=label)
        elif stages:
            _stack_stages(axes, x, seconds, stages)
    axes.set_title("Time", fontsize=10)
    axes.set_ylabel("seconds per step")
    axes.set_ylim(0, 1.1 * axes.get_ylim()[1])


def _stack_stages(axes: Axes, x: Floats, seconds: Floats, stages: Sequence[str]) -> None:
    """Draw ``seconds`` [stages, steps] as layers, the slowest stage at the bottom; those below 2 % become one layer."""
    share = seconds.sum(axis=1) / max(seconds.sum(), 1e-12)
    large = share >= 0.02
    layers, shares = list(seconds[large]), list(share[large])
    names = [
        stage.removeprefix("time/").removesuffix("_s")
        for stage, is_large in zip(stages, large, strict=True)
        if is_large
    ]
    if not large.all():
        layers, shares, names = (
            [*layers, seconds[~large].sum(axis=0)],
            [*shares, share[~large].sum()],
            [*names, "other"],
        )
    labels = [f"{name} {part:.0%}" for name, part in zip(names, shares, strict=True)]
    axes.stackplot(x, layers, labels=labels, colors=COLOURS, alpha=0.8, linewidth=0)
    # Room above the layers, so that the legend hides none.
    axes.set_ylim(0, 1.35 * seconds.sum(axis=0).max())
    axes.legend(frameon=False, fontsize=8, loc="upper left", ncols=3)
