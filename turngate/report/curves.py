"""Curves of a run over its training steps, as PNG files: its success beside its controls, and panels of metrics."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from turngate.errors import DataError
from turngate.report.figure import (
    COLOURS,
    Floats,
    Rows,
    curve_of,
    legend_below,
    new_figure,
    save_figure,
    tidy,
)
from turngate.report.guidance import ALONE, was_guided

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOW = 5  # number of steps averaged in each point of the curve that compares a run with its controls
WINDOW_SHARE = 0.06  # the moving average of a panel spans this share of its curve


class CurvePanel(NamedTuple):
    """One plot of one metric over the steps; its y axis includes 0 and, where it is given, ``top``."""

    metric: str
    title: str
    ylabel: str
    top: float | None = None


SUCCESS = "train/success"
PANELS = (
    CurvePanel(SUCCESS, "Success in training", "share of usable episodes", 1.0),
    CurvePanel(ALONE, "Success without help", "share of usable episodes", 1.0),
    CurvePanel("train/paid", "Reward paid", "reward per usable episode"),
    CurvePanel("policy/entropy_nats", "Entropy of the policy", "nats per token"),
    CurvePanel("policy/kl_to_sampler_nats", "Distance from the sampler", "KL, nats per token"),
    CurvePanel("train/turns", "Length", "turns per usable episode"),
    CurvePanel("curriculum/pass_rate", "Pass rate of the curriculum's tasks", "mean estimate", 1.0),
    CurvePanel("refill/tasks", "Tasks played to fill a step", "tasks"),
)
SOURCE = "curriculum/weight/"


def plot_success(runs: Mapping[str, Rows], path: str | Path, *, title: str, about: str) -> None:
    """Draw the success of the training episodes of each run, by its label: one point for each ``WINDOW`` steps.

    Of a run with a guide only episodes without help are drawn. ``about`` says above the plot what the episodes are. The
    y axis goes from 0 to 1. Raises DataError when there is nothing to draw, and MissingExtra without matplotlib.
    """
    curves = {label: means(*unaided_success(rows), WINDOW) for label, rows in runs.items()}
    if not any(len(x) for x, _ in curves.values()):
        raise DataError(path, f"nothing to draw: the metrics have neither {SUCCESS} nor {ALONE}")
    figure = new_figure(6.4, 4.6)
    axes = figure.add_subplot()
    for number, (label, (x, y)) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        marker = "o" if len(x) <= 12 else None
        axes.plot(x, y, color=colour, linewidth=2.2, marker=marker, label=label, clip_on=False)
    axes.set_ylim(0, 1)
    axes.set_xlim(0, max(x[-1] for x, _ in curves.values() if len(x)))
    axes.set_ylabel("share of usable training episodes solved")
    tidy(axes, f"training step (a point: mean of the {WINDOW} steps up to it)")
    axes.set_title(textwrap.fill(about, 85), fontsize=9)
    legend_below(figure, n_columns=2)
    save_figure(figure, path, title)


def plot_curves(rows: Rows, path: str | Path, *, title: str, about: str) -> None:
    """Draw a panel for each of ``PANELS`` in the metrics, one of a curriculum's sources, and one of the stages' times.

    Raw values are faint lines and their moving average is a bold one. ``about`` says below the plots what the episodes
    are. Raises DataError when there is nothing to draw, and MissingExtra without matplotlib.
    """
    panels = [panel for panel in PANELS if len(curve_of(rows, panel.metric)[0])]
    draws: list[Callable[[Axes], None]] = [partial(_draw_panel, panel=panel, rows=rows) for panel in panels]
    if _sources(rows):
        draws.append(partial(_draw_sources, rows=rows))
    if _stages(rows):
        draws.append(partial(_draw_time, rows=rows))
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
    figure.supxlabel(textwrap.fill(about, 60 * n_columns), fontsize=9)
    save_figure(figure, path, title)


# --- the numbers -----------------------------------------------------------------------------------------------------


def unaided_success(rows: Rows) -> tuple[Floats, Floats]:
    """Steps and success of the training episodes that had no help; without the steps in which all had."""
    return curve_of(rows, ALONE if was_guided(rows) else SUCCESS)


def means(x: Floats, y: Floats, window: int) -> tuple[Floats, Floats]:
    """The mean of each ``window`` values of y in turn, and the last x of each; the last mean may have fewer values."""
    starts = range(0, len(x), window)
    ends = [min(start + window, len(x)) - 1 for start in starts]
    return x[ends], np.array([y[start : start + window].mean() for start in starts], np.float64)


def smooth(values: Floats, window: int) -> Floats:
    """Centred moving average over ``window`` (odd) values; at both ends, over as many of them as there are."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    start, stop = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(values))
    return np.asarray((sums[stop] - sums[start]) / (stop - start))


def _sources(rows: Rows) -> list[str]:
    """The sources of tasks that a curriculum weighed, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row if name.startswith(SOURCE)))


def _stages(rows: Rows) -> list[str]:
    """The timed stages of a run, the slowest first."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith("time/"))
    return sorted(names, key=lambda name: -sum(row.get(name, 0.0) for row in rows))


# --- drawing ---------------------------------------------------------------------------------------------------------


def _draw_panel(axes: Axes, panel: CurvePanel, rows: Rows) -> None:
    x, y = curve_of(rows, panel.metric)
    window = max(1, 2 * int(len(x) * WINDOW_SHARE / 2) + 1)
    title = f"{panel.title}, with and without help" if panel.metric == SUCCESS and was_guided(rows) else panel.title
    axes.plot(x, y, color=COLOURS[0], linewidth=0.8, alpha=0.3 if window > 1 else 1.0, clip_on=False)
    axes.plot(x, smooth(y, window), color=COLOURS[0], linewidth=2.0, clip_on=False)
    axes.set_title(title + (f" (bold: mean of {window} steps)" if window > 1 else ""), fontsize=10)
    axes.set_ylabel(panel.ylabel)
    _, high = axes.get_ylim()
    if y.min() >= 0:
        axes.set_ylim(0, panel.top or high)
    elif y.max() <= 0:
        axes.set_ylim(top=0)


def _draw_sources(axes: Axes, rows: Rows) -> None:
    for number, name in enumerate(_sources(rows)):
        label, colour = name.removeprefix(SOURCE), COLOURS[number % len(COLOURS)]
        axes.plot(*curve_of(rows, name), color=colour, linewidth=1.4, label=label, clip_on=False)
    axes.set_title("Where the tasks come from", fontsize=10)
    axes.set_ylabel("weight of a source")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8, frameon=False)


def _draw_time(axes: Axes, rows: Rows) -> None:
    """Seconds per step, stacked by stage."""
    stages = _stages(rows)
    x = np.array([row["step"] for row in rows], np.float64)
    seconds = np.nan_to_num(np.array([[row.get(stage, 0.0) for row in rows] for stage in stages]))
    _stack_stages(axes, x, seconds, stages)
    axes.set_title("Time", fontsize=10)
    axes.set_ylabel("seconds per step")


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
