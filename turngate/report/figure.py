"""Common parts of all figures of a report: colours, axes, and how a file is written (equal numbers give equal bytes).

Figures are made of matplotlib's objects and without ``pyplot``, so no global state is changed and no display is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = Sequence[Mapping[str, float]]

DPI = 130
"""Pixels in an inch of a file."""

# Okabe and Ito's colours, which people with any colour vision tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def curve_of(rows: Rows, metric: str) -> tuple[Floats, Floats]:
    """Steps and values of a metric in order of the steps, without those where it is not finite."""
    points = [(row["step"], row[metric]) for row in rows if metric in row]
    curve = np.array(points, np.float64).reshape(-1, 2)
    curve = curve[np.isfinite(curve).all(axis=1)]
    curve = curve[np.argsort(curve[:, 0], kind="stable")]
    return curve[:, 0], curve[:, 1]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; width and height in inches. Raises MissingExtra without matplotlib."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots") from error
    # Padding in inches, so that a label does not touch the next plot.
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))


def legend_below(figure: Figure, n_columns: int) -> None:
    """Draw one legend for all plots of a figure, below them."""
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=n_columns, frameon=False, fontsize=9)


def tidy(axes: Axes, xlabel: str) -> None:
    """Label the x axis, whose ticks are whole steps, draw a grid, and remove the upper and right edge of the frame."""
    axes.set_xlabel(xlabel)
    axes.locator_params(axis="x", integer=True)
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def save_figure(figure: Figure, path: str | Path, title: str) -> None:
    """Write the figure with a title as a PNG file. Makes the folder."""
    figure.suptitle(title, fontsize=12, fontweight="bold")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_png(figure, Path(path))


def write_png(figure: Figure, path: Path) -> None:
    """Draw a figure. Equal figures give equal bytes."""
    figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})  # without the program's name
