"""The report of a run: success without hints before and after training, its negative controls, and its alarms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from turngate.config import Config, load_run
from turngate.evaluations import read_evaluations
from turngate.metrics import read_metrics
from turngate.report.curves import plot_curves, plot_runs
from turngate.report.monitors import alarm_markdown, alarm_table, is_monitored, no_alarms, plot_monitors, usable_line
from turngate.report.supervised import tell_baselines
from turngate.report.tables import Success, by_question, comparison_markdown, comparison_table, print_table
from turngate.report.warm_start import draw_passes, tell_passes
from turngate.runs import RunFolder
from turngate.store import write_text_atomic
from turngate.trainer.alarm_log import read_alarms
from turngate.trainer.evaluate import Evaluation
from turngate.trainer.overlap import read_overlaps
from turngate.types import Metrics

WINDOW = 5  # number of steps averaged in each point of the curve that compares a run with its controls


def write_report(path: Path, console: Console) -> None:
    """Print the tables of a run; write ``summary.md`` and the pictures of curves and monitors into ``report/``.

    A warning for each environment with an unsafe rubric comes first. Raises ConfigError for a folder that is not that
    of a run, and MissingExtra without matplotlib.
    """
    run = RunFolder.of(path)
    folder = run.report
    folder.mkdir(exist_ok=True)
    text = [f"# {path.name}\n"]
    if warnings := unsafe_rubrics(load_run(run)):
        console.print("\n" + "\n".join(warnings), markup=False, highlight=False, soft_wrap=True)
        text.append("".join(f"* {line}\n" for line in warnings))
    if lines := overlap_lines(run):
        console.print("\n" + "\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        text.append("".join(f"* {line}\n" for line in lines))
    text += tell_passes(run, console)
    for title, one in _runs(run):
        before, after = _phase(one, "before"), _phase(one, "after")
        if not before:
            continue
        console.print(f"\n{title}", highlight=False)
        print_table(console, comparison_table(before, after))
        text.append(f"## {title}\n\n{comparison_markdown(before, after)}")
    text += tell_baselines(run, console)
    for title, one in _runs(run):
        if rows := _metrics(one):
            text.append(_tell_alarms(title, one, rows, console))
    write_text_atomic(folder / "summary.md", "\n".join(text))
    pictures = [*draw_passes(run), *_draw(run)]
    written = ", ".join(map(str, [folder / "summary.md", *pictures]))
    console.print(f"\nwritten: {written}", markup=False, highlight=False, soft_wrap=True)


def unsafe_rubrics(config: Config) -> list[str]:
    """A line for each environment that was trained on although its rubric is unsafe (``allow_unsafe``)."""
    return [
        f"the rubric of '{section.label}' is unsafe (env.allow_unsafe = true): process rewards can outrank the outcome"
        ", so a higher reward need not mean a better agent"
        for section in config.env
        if section.allow_unsafe
    ]


def overlap_lines(run: RunFolder) -> list[str]:
    """A line for each evaluated split that was compared with training, and one for each that is not apart from it."""
    if not run.overlap.exists():
        return []
    found = read_overlaps(run.overlap.read_text(encoding="utf-8"))
    return [line for one in found for line in (one.line, one.problem and f"warning: {one.problem}") if line]


def _tell_alarms(title: str, run: RunFolder, rows: Sequence[Metrics], console: Console) -> str:
    """Print the alarms of one run, or that there are none; returns the same as a section of ``summary.md``."""
    raised, heading = read_alarms(run.path), f"alarms, {title}"
    console.print(f"\n{heading}", highlight=False)
    lost = usable_line(rows)
    if lost:
        console.print(lost, highlight=False, soft_wrap=True)
    said = f"## {heading}\n\n" + (f"{lost}\n\n" if lost else "")
    if not raised:
        sentence = no_alarms(rows)
        console.print(sentence, highlight=False)
        return f"{said}{sentence}\n"
    print_table(console, alarm_table(raised))
    return f"{said}{alarm_markdown(raised)}"


def _runs(run: RunFolder) -> list[tuple[str, RunFolder]]:
    return [("training", run), *((f"control: {one.path.name.replace('_', ' ')}", one) for one in run.controls)]


def _phase(run: RunFolder, wanted: str) -> list[Success]:
    return [_success(evaluation) for phase, evaluation in read_evaluations(run.path) if phase == wanted]


def _success(evaluation: Evaluation) -> Success:
    return Success(
        split=evaluation.split,
        temperature=evaluation.temperature,
        successes=sum(evaluation.success_B),
        n=len(evaluation.success_B),
        unusable=evaluation.unusable,
        by_question=by_question(evaluation.question_B, evaluation.success_B),
    )


def _draw(run: RunFolder) -> list[Path]:
    name, seed, folder = run.path.name, load_run(run).seed, run.report
    rows = {title: found for title, one in _runs(run) if (found := _metrics(one))}
    if not rows:
        return []
    plot_curves(rows["training"], folder / "curves.png", title=name)
    series = {
        title: [_points([(row["step"], row["train/success"]) for row in run if "train/success" in row])]
        for title, run in rows.items()
    }
    plot_runs(
        series,
        folder / "success.png",
        ylabel=f"success on training tasks, mean of {WINDOW} steps",
        xlabel="training step",
        title=f"{name}, seed {seed}: unaided success",
    )
    pictures = [folder / "success.png", folder / "curves.png"]
    if is_monitored(rows["training"]):
        title = f"{name}, seed {seed}: hacking and starvation monitors"
        plot_monitors(rows["training"], read_alarms(run.path), folder / "monitors.png", title=title)
        pictures.append(folder / "monitors.png")
    return pictures


def _points(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    chunks = [points[start : start + WINDOW] for start in range(0, len(points), WINDOW)]
    return [(chunk[-1][0], sum(y for _, y in chunk) / len(chunk)) for chunk in chunks]


def _metrics(run: RunFolder) -> list[Metrics]:
    """The metrics of each training step; empty for a run without training."""
    return read_metrics(run.metrics) if run.metrics.exists() else []
