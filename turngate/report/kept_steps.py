"""Validated training steps in a report: which one is best, and a picture of how each did on validation tasks."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.report.figure import COLOURS, legend_below, new_figure, save_figure, tidy
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.validation_steps import TriedSteps, read_steps

CURVE = "validation.png"


def tell_steps(run: RunFolder, console: Console) -> list[str]:
    """Print which step is best; returns the same as sections of ``summary.md``, none without validation of steps."""
    steps = read_steps(run)
    if steps is None or not steps.tried:
        return []
    console.print(f"\n{steps.line}", markup=False, highlight=False)
    return [f"## validation in training\n\n{steps.line}\n\n![Validation after training steps]({CURVE})\n"]


def draw_steps(run: RunFolder) -> list[Path]:
    """Draw both rates of each validated step, the best one marked; returns the picture, if there is one.

    Raises MissingExtra without matplotlib.
    """
    steps = read_steps(run)
    if steps is None or not steps.tried:
        return []
    _curve(steps, run.report / CURVE, title=f"{run.path.name}: validation in training")
    return [run.report / CURVE]


def _curve(steps: TriedSteps, path: Path, *, title: str) -> None:
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    numbers = [one.number for one in steps.tried]
    sampled, greedy = [100 * one.sampled for one in steps.tried], [100 * one.greedy for one in steps.tried]
    axes.plot(numbers, sampled, "o-", color=COLOURS[0], label=f"sampled, temperature {steps.temperature:g}")
    axes.plot(numbers, greedy, "s-", color=COLOURS[1], label="greedy")
    axes.set_ylabel(f"success on {steps.tasks} validation tasks, %")
    axes.set_ylim(0, 105)
    if steps.best is not None:
        axes.axvline(steps.best.number, color="#666666", linestyle="--", label=f"best: step {steps.best.number}")
    tidy(axes, "training step")
    legend_below(figure, n_columns=3)
    save_figure(figure, path, title)
