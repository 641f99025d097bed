"""A run in tables and pictures: unaided success before and after, what the negative controls did, which alarms rang."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from turngate.config import load
from turngate.errors import ConfigError
from turngate.evaluations import read_evaluations
from turngate.metrics import read_metrics
from turngate.report.curves import plot_curves, plot_runs
from turngate.report.monitors import alarm_markdown, alarm_table, is_monitored, no_alarms, plot_monitors
from turngate.report.tables import Success, by_task, comparison_markdown, comparison_table
from turngate.store import write_text_atomic
from turngate.trainer.alarm_log import read_alarms
from turngate.trainer.evaluate import Evaluation

WINDOW = 5  # steps that a point of the comparison with the controls averages


def write_report(run: Path, console: Console) -> None:
    """Print the tables; draw curves, successes and monitors and write ``summary.md``, all in ``report/``.

    Raises ConfigError for a folder that is not that of a run, MissingExtra without matplotlib.
    """
    if not (run / "config.toml").exists():
        raise ConfigError(f"'{run}' is not the folder of a run (it has no config.toml)")
    folder = run / "report"
    folder.mkdir(exist_ok=True)
    text = [f"# {run.name}\n"]
    for title, path in _runs(run):
        before, after = _phase(path, "before"), _phase(path, "after")
        if not before:
            continue
        console.print(f"\n{title}", highlight=False)
        console.print(comparison_table(before, after))
        text.append(f"## {title}\n\n{comparison_markdown(before, after)}")
    for title, path in _runs(run):
        if _trained(path):
            text.append(_tell_alarms(title, path, console))
    write_text_atomic(folder / "summary.md", "\n".join(text))
    pictures = _draw(run, folder)
    console.print(f"\nwritten: {folder / 'summary.md'}" + "".join(f", {path}" for path in pictures), highlight=False)


def _tell_alarms(title: str, path: Path, console: Console) -> str:
    """Print the alarms of one run, or that there are none; the same as a section of the summary."""
    raised, heading = read_alarms(path), f"alarms, {title}"
    console.print(f"\n{heading}", highlight=False)
    if not raised:
        sentence = no_alarms(read_metrics(path / "metrics.jsonl"))
        console.print(sentence, highlight=False)
        return f"## {heading}\n\n{sentence}\n"
    console.print(alarm_table(raised))
    return f"## {heading}\n\n{alarm_markdown(raised)}"


def _runs(run: Path) -> list[tuple[str, Path]]:
    controls = sorted((run / "controls").glob("*/config.toml"))
    return [("training", run), *((f"control: {path.parent.name.replace('_', ' ')}", path.parent) for path in controls)]


def _phase(path: Path, wanted: str) -> list[Success]:
    return [_success(evaluation) for phase, evaluation in read_evaluations(path) if phase == wanted]


def _success(evaluation: Evaluation) -> Success:
    return Success(
        split=evaluation.split,
        temperature=evaluation.temperature,
        successes=sum(evaluation.success_B),
        n=len(evaluation.success_B),
        unusable=evaluation.unusable,
        by_task=by_task(evaluation.task_B, evaluation.success_B),
    )


def _draw(run: Path, folder: Path) -> list[Path]:
    seed = load(run / "config.toml").seed
    rows = {title: read_metrics(path / "metrics.jsonl") for title, path in _runs(run) if _trained(path)}
    if not rows:
        return []
    plot_curves(rows["training"], folder / "curves.png", title=run.name)
    series = {title: [_points([(row["step"], row["train/success"]) for row in run])] for title, run in rows.items()}
    plot_runs(
        series,
        folder / "success.png",
        ylabel=f"success on training tasks, mean of {WINDOW} steps",
        xlabel="training step",
        title=f"{run.name}, seed {seed}: unaided success",
    )
    pictures = [folder / "success.png", folder / "curves.png"]
    if is_monitored(rows["training"]):
        title = f"{run.name}, seed {seed}: hacking and starvation monitors"
        plot_monitors(rows["training"], read_alarms(run), folder / "monitors.png", title=title)
        pictures.append(folder / "monitors.png")
    return pictures


def _points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    chunks = [points[start : start + WINDOW] for start in range(0, len(points), WINDOW)]
    return [(chunk[-1][0], sum(y for _, y in chunk) / len(chunk)) for chunk in chunks]


def _trained(path: Path) -> bool:
    return (path / "metrics.jsonl").exists() and bool(read_metrics(path / "metrics.jsonl"))
