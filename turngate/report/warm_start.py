"""The warm start in a report: which pass was chosen, and a picture of how each did on validation tasks."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.report.figure import COLOURS, legend_below, new_figure, save_figure, tidy
from turngate.runs import RunFolder
from turngate.trainer.tried_passes import TriedPasses, read_passes

PICTURE = "warm_start.png"


def tell_passes(run: RunFolder, console: Console) -> list[str]:
    """Print which pass was chosen; returns the same as sections of ``summary.md``, none without validation."""
    passes = read_passes(run)
    if passes is None:
        return []
    console.print(f"\n{passes.line}", markup=False, highlight=False)
    return [f"## warm start\n\n{passes.line}\n\n![Validation after each pass]({PICTURE})\n"]


def draw_passes(run: RunFolder) -> list[Path]:
    """Draw success and cross-entropy of each pass, the chosen one marked; returns the picture, if there is one.

    Raises MissingExtra without matplotlib.
    """
    passes = read_passes(run)
    if passes is None:
        return []
    _plot(passes, run.report / PICTURE, title=f"{run.path.name}: passes of the warm start")
    return [run.report / PICTURE]


def _plot(passes: TriedPasses, path: Path, *, title: str) -> None:
    figure = new_figure(9.2, 3.6)
    success, loss = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    numbers = [one.number for one in passes.tried]
    sampled, greedy = [100 * one.sampled for one in passes.tried], [100 * one.greedy for one in passes.tried]
    success.plot(numbers, sampled, "o-", color=COLOURS[0], label=f"sampled, temperature {passes.temperature:g}")
    success.plot(numbers, greedy, "s-", color=COLOURS[1], label="greedy")
    success.set_ylabel(f"success on {passes.tasks} validation tasks, %")
    success.set_ylim(0, 105)
    cross_entropy = [one.cross_entropy for one in passes.tried]
    loss.plot(numbers, cross_entropy, "o-", color=COLOURS[2], label="cross-entropy on the demonstrations")
    loss.set_ylabel("nats per token")
    best = passes.chosen.number
    for axes in (success, loss):
        axes.axvline(best, color="#666666", linestyle="--", label=f"chosen: pass {best}")
        axes.locator_params(axis="x", integer=True)
        tidy(axes, "pass")
    legend_below(figure, n_columns=4)
    save_figure(figure, path, title)
