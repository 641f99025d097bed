"""One picture: learning curves on top, direction bias and sample size of every estimator below."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.credit_lab.paths import Floats
from benchmarks.credit_lab.report import Results

# Okabe and Ito's colours, which people with any colour vision tell apart.
HIGHLIGHTS = {
    "rloo": "#0072B2",
    "returns": "#56B4E9",
    "grpo": "#D55E00",
    "gigpo": "#009E73",
    "turn_gae γ=1 λ=1": "#000000",
    "sag": "#CC79A7",
    "control: centred per index": "#E69F00",
}


def write_figure(results: Results, path: Path) -> None:
    """Save the picture as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    below = 1.5 + 0.2 * len(results.estimators)
    figure = Figure(figsize=(15, 7.5 + below), dpi=100, layout="constrained")
    top, bottom = np.asarray(figure.subfigures(2, 1, height_ratios=[7.5, below]))
    _curves(results, top)
    left, right = bottom.subplots(1, 2)
    _heat(results, bottom, left, _direction(results), "direction bias, % of the mean gradient", (0, 100))
    _heat(
        results, bottom, right, _sizes(results), "trajectories to cosine 0.9, log₁₀ (white: never, or no signal)",
        (0.9, 4),
    )  # fmt: skip
    right.set_yticklabels([])
    FigureCanvasAgg(figure).print_figure(path)


def _curves(results: Results, figure: Any) -> None:
    n_seeds = max(len(curve.success_SU) for curve in results.curves.values())
    figure.suptitle(
        f"Learning: mean over {n_seeds} seeds, band = 95 % interval of the mean; the grey lines are all others.\n"
        "Direction bias: sine of the angle between the mean gradient and the exact gradient of the payments."
    )
    panels = figure.subplots(2, -(-(len(results.processes) + 1) // 2)).ravel()
    for panel, process in zip(panels, results.processes, strict=False):
        for estimator in results.estimators:
            curve = results.curves.get((process.name, estimator.label))
            if curve is not None:
                _line(panel, estimator.label, curve.interval())
        panel.set_title(process.name)
        panel.set_xlabel("updates")
        panel.set_ylabel("expected true outcome")
        panel.set_ylim(0, 1.02)
    for panel in panels[len(results.processes) :]:
        panel.axis("off")
    known = {estimator.label for estimator in results.estimators}
    for label, colour in HIGHLIGHTS.items():
        if label in known:
            panels[-1].plot([], [], color=colour, label=label)
    panels[-1].legend(loc="center", frameon=False)


def _line(panel: Any, label: str, interval: tuple[Floats, Floats, Floats]) -> None:
    mean_U, low_U, high_U = interval
    colour = HIGHLIGHTS.get(label)
    update_U = np.arange(len(mean_U))
    panel.plot(update_U, mean_U, color=colour or "#cccccc", linewidth=1.6 if colour else 0.6, zorder=2 if colour else 1)
    if colour:
        panel.fill_between(update_U, low_U, high_U, color=colour, alpha=0.2, linewidth=0)


def _direction(results: Results) -> Floats:
    return np.array([[_bend(results, process.name, estimator.label) for process in results.processes]
                     for estimator in results.estimators])  # fmt: skip


def _bend(results: Results, process: str, label: str) -> float:
    one = results.measured.get((process, label))
    return math.nan if one is None else 100 * one.bias.bend


def _sizes(results: Results) -> Floats:
    found = [[results.measured.get((process.name, estimator.label)) for process in results.processes]
             for estimator in results.estimators]  # fmt: skip
    samples = np.array([[math.nan if one is None else one.samples for one in line] for line in found])
    return np.log10(np.where(np.isfinite(samples), samples, np.nan))


def _heat(results: Results, figure: Any, panel: Any, value_EP: Floats, title: str, limits: tuple[float, float]) -> None:
    image = panel.imshow(value_EP, aspect="auto", cmap="viridis_r", vmin=limits[0], vmax=limits[1])
    panel.set_xticks(range(len(results.processes)), [process.name for process in results.processes])
    panel.set_yticks(range(len(results.estimators)), [one.label for one in results.estimators])
    panel.set_title(title)
    for row, column in np.argwhere(np.isfinite(value_EP)):
        value = value_EP[row, column]
        dark = value > sum(limits) / 2
        text = f"{value:.1f}" if limits[1] < 10 else f"{value:.0f}"
        panel.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    figure.colorbar(image, ax=panel, shrink=0.4)
