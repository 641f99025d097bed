"""The images that an episode's observations hold, as files: one for each, with a ring where the agent pointed, and a
strip of all side by side.

Where the agent pointed is what its action names (``x`` and ``y``), or what the environment recorded of it as evidence
``pointed_at``: the middle of the element on the page that the image shows.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turngate.errors import ConfigError
from turngate.report import figure as figures
from turngate.report.episode_words import literal
from turngate.report.figure import DPI, Floats, new_figure, save_figure
from turngate.store.files import write_image
from turngate.types import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IN_A_ROW = 6
"""Images in a row of a strip."""
PANEL_IN = 3.2
"""Width of an image in a strip, in inches."""
_RING = "#D55E00"


def write_screenshots(trajectory: Trajectory, folder: Path) -> list[Path]:
    """Write ``turn_000.png`` and so on and, last, ``strip.png``; returns the files.

    Raises ConfigError for an episode without images, or with one that cannot be read, and MissingExtra without
    matplotlib.
    """
    written: list[Path] = []
    for index, image in _images(trajectory):
        name, place = f"turn_{index:03d}", pointed_at(trajectory, index)
        written.append(write_image(image, folder, name) if place is None else _ringed(image, place, folder / name))
    draw_strip(trajectory, folder / "strip.png")
    return [*written, folder / "strip.png"]


def draw_strip(trajectory: Trajectory, path: Path) -> None:
    """Draw the images of an episode side by side, each below the action that was taken on seeing it.

    Raises as ``write_screenshots`` does.
    """
    shown = list(_images(trajectory))
    if not shown:
        raise ConfigError(
            f"no images were recorded of trajectory '{trajectory.id}'; pages are recorded with an image of each where "
            'the run has env.kwargs.screenshot = "plain" (or "marks"), and a policy that takes images'
        )
    pixels = [_pixels(image) for _, image in shown]
    rows, columns = -(-len(shown) // IN_A_ROW), min(IN_A_ROW, len(shown))
    height, width = pixels[0].shape[:2]
    figure = new_figure(PANEL_IN * columns, (PANEL_IN * height / width + 0.5) * rows + 0.4)
    axes_N = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in axes_N:
        axes.set_axis_off()
    for axes, (index, _), seen in zip(axes_N, shown, pixels, strict=False):
        axes.imshow(seen)
        _ring(axes, pointed_at(trajectory, index), seen)
        did = textwrap.shorten(literal(trajectory.turns[index].action.text), 44, placeholder=" …")
        axes.set_title(f"{index}: {did}", fontsize=8, loc="left", parse_math=False)
    save_figure(figure, path, title=literal(trajectory.task.id))


def pointed_at(trajectory: Trajectory, index: int) -> tuple[float, float] | None:
    """Where the action of a turn pointed, in pixels from the left and upper edge; None for one that pointed nowhere."""
    for call in trajectory.turns[index].action.calls:
        place = _place([call.arguments.get("x"), call.arguments.get("y")])
        if place is not None:
            return place
    return next((_place(fact.value) for fact in trajectory.facts_of(index) if fact.name == "pointed_at"), None)


def _place(value: object) -> tuple[float, float] | None:
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(one, int | float) for one in value):
        return float(value[0]), float(value[1])
    return None


def _images(trajectory: Trajectory) -> Iterator[tuple[int, bytes]]:
    """The number of a turn, and the first image that was seen before it."""
    for index, turn in enumerate(trajectory.turns):
        if turn.observation.images:
            yield index, turn.observation.images[0]


def _pixels(image: bytes) -> Floats:
    from matplotlib.image import imread

    new_figure(1, 1)  # says how to install matplotlib
    try:
        return np.asarray(imread(io.BytesIO(image), format="png" if image.startswith(b"\x89PNG") else None))
    except Exception as error:
        raise ConfigError(f"an image that begins with {image[:8]!r} cannot be read: {error}") from None


def _ringed(image: bytes, place: tuple[float, float], path: Path) -> Path:
    """The image in its own size with a ring at ``place``."""
    seen = _pixels(image)
    height, width = seen.shape[:2]
    figure = new_figure(width / DPI, height / DPI)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.imshow(seen, interpolation="none", aspect="auto")
    _ring(axes, place, seen)
    path.parent.mkdir(parents=True, exist_ok=True)
    figures.write_png(figure, path.with_suffix(".png"))
    return path.with_suffix(".png")


def _ring(axes: Axes, place: tuple[float, float] | None, seen: Floats) -> None:
    height, width = seen.shape[:2]
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    if place is not None:
        axes.scatter(*place, s=160, facecolors="none", edgecolors="white", linewidths=4)
        axes.scatter(*place, s=160, facecolors="none", edgecolors=_RING, linewidths=2)
