"""The warm start in a report: which pass was chosen, and a picture of how each did on validation tasks."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from turngate.report.figure import COLOURS, legend_below, new_figure, save_figure, tidy
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.validation_passes import WarmStartRecord, read_passes

PICTURE = "warm_start.png"


def tell_passes(run: RunFolder, console: Console) -> list[str]:
    """Print which pass was chosen; returns the same as sections of ``summary.md``, none without validation."""
    record = read_passes(run)
    if record is None:
        return []
    console.print(f"\n{record.line}", markup=False, highlight=False)
    return [f"## warm start\n\n{record.line}\n\n![Validation after each pass]({PICTURE})\n"]


def draw_passes(run: RunFolder) -> list[Path]:
    """Draw success and cross-entropy of each pass, the chosen one marked; returns the picture, if there is one.

    Raises MissingExtra without matplotlib.
    """
    record = read_passes(run)
    if record is None:
        return []
    _plot(record, run.report / PICTURE, title=f"{run.path.name}: {_title(record)}")
    return [run.report / PICTURE]


def _title(record: WarmStartRecord) -> str:
    found = record.best
    return f"warm start, lr {found.lr:g}, {found.episodes_per_batch} episodes an update"


def _plot(record: WarmStartRecord, path: Path, *, title: str) -> None:
    """The passes of the chosen learning rate and batch size; those in which the learning rate falls are dashed."""
    figure = new_figure(9.2, 3.6)
    success, loss = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    for phase, line in (("constant", "-"), ("decay", "--")):
        tried = [one for one in record.best.tried if one.phase == phase]
        numbers, falls = [one.number for one in tried], ", learning rate falls" if phase == "decay" else ""
        sampled, greedy = [100 * one.sampled for one in tried], [100 * one.greedy for one in tried]
        success.plot(
            numbers, sampled, f"o{line}", color=COLOURS[0], label=f"sampled, T = {record.temperature:g}{falls}"
        )
        success.plot(numbers, greedy, f"s{line}", color=COLOURS[1], label=f"greedy{falls}")
        loss.plot(numbers, [one.cross_entropy for one in tried], f"o{line}", color=COLOURS[2])
    success.set_ylabel(f"success on {record.tasks} validation tasks, %")
    success.set_ylim(0, 105)
    loss.set_ylabel("cross-entropy, nats per token")
    best = record.best.chosen
    for axes in (success, loss):
        axes.axvline(best.number, color="#666666", linestyle=":", label=f"chosen: pass {best.number}")
        axes.locator_params(axis="x", integer=True)
        tidy(axes, "pass")
    legend_below(figure, n_columns=3)
    save_figure(figure, path, title)
