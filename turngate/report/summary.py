"""The report of a run: success without hints before and after training, its negative controls, and its alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console

from turngate.config.run_config import Config, load_run
from turngate.report.curves import plot_curves, plot_success, unaided_success
from turngate.report.episodes import evaluations_of, write_episodes
from turngate.report.guidance import PICTURE, plot_guidance, tell_guidance, was_guided
from turngate.report.intervals import by_question
from turngate.report.kept_steps import draw_steps, tell_steps
from turngate.report.monitors import (
    alarm_markdown,
    alarm_table,
    is_monitored,
    missing_line,
    no_alarms,
    plot_monitors,
    usable_line,
)
from turngate.report.screenshots import draw_strip
from turngate.report.supervised import tell_baselines
from turngate.report.tables import (
    Phases,
    Success,
    comparison_markdown,
    note,
    print_comparison,
    print_table,
)
from turngate.report.warm_start import draw_passes, tell_passes
from turngate.store import Store, write_text_atomic
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.checks.alarm_log import read_alarms
from turngate.trainer.evaluation.abstention import abstention_lines
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import read_evaluations, withheld_lines
from turngate.trainer.evaluation.overlap import overlap_lines, read_overlaps
from turngate.trainer.guidance.base import NoGuidePart
from turngate.types import Metrics

STRIPS = 3
"""Most episodes whose screenshots a report shows."""


def write_report(path: Path, console: Console) -> None:
    """Print the tables of a run; write ``summary.md``, ``episodes.csv`` and the pictures of curves and monitors into
    ``report/``.

    A warning for each environment with an unsafe rubric comes first. Raises ConfigError for a folder that is not that
    of a run, and MissingExtra without matplotlib. Of a run of stages, success after each of them is compared, and each
    gets a report of its own.
    """
    if RunFolder(path).stages:
        _report_stages(RunFolder(path), console)
        return
    run = RunFolder.of(path)
    folder = run.report
    folder.mkdir(exist_ok=True)
    text = [f"# {path.name}\n"]
    for lines in (unsafe_rubrics(load_run(run)), overlaps_of(run)):
        if lines:
            console.print("\n" + "\n".join(lines), markup=False, highlight=False)
            text.append("".join(f"* {line}\n" for line in lines))
    text += tell_passes(run, console) + tell_steps(run, console)
    text += _tell_success({title: phases for title, one in evaluated_runs(run) if (phases := phases_of(one))}, console)
    text += [told for title, one in evaluated_runs(run) if (told := _tell_abstention(title, one, console))]
    text += _tell_withheld(withheld_lines(run.path), console)
    text += tell_baselines(run, console)
    text += tell_guidance(_metrics(run), console)
    for title, one in evaluated_runs(run):
        if rows := _metrics(one):
            text.append(_tell_alarms(title, one, rows, console))
    write_text_atomic(folder / "summary.md", "\n".join(text))
    files = [folder / "summary.md", *_tell_episodes(run)]
    pictures = [*draw_passes(run), *draw_steps(run), *_draw(run), *_draw_strips(run)]
    written = ", ".join(path.name for path in [*files, *pictures])
    console.print(f"\nwritten into {folder}:", markup=False, highlight=False, soft_wrap=True)
    console.print(written, markup=False, highlight=False)


def _report_stages(run: RunFolder, console: Console) -> None:
    for stage in run.stages:
        write_report(stage.path, Console(quiet=True))
    phases: dict[str, list[Success]] = {}
    for stage in run.stages:
        own = phases_of(stage)
        if not phases and "before" in own:
            phases["before"] = own["before"]
        if (last := own.get("after", own.get("before"))) and (stage.is_complete or "after" in own):
            phases[stage.path.name] = last
    run.report.mkdir(exist_ok=True)
    text = [f"# {run.path.name}\n", *(_tell_success({"stages": phases} if phases else {}, console))]
    text += ["## reports of the stages\n", *(f"* stages/{one.path.name}/report/summary.md" for one in run.stages)]
    write_text_atomic(run.report / "summary.md", "\n".join(text) + "\n")
    where = f"\nwritten into {run.report}: summary.md; each stage has a report of its own in {run.stages_folder}"
    console.print(where, markup=False, highlight=False, soft_wrap=True)


def _tell_episodes(run: RunFolder) -> list[Path]:
    """Write every evaluated episode of the run, its controls and its baselines; returns the file, if there are any."""
    baselines = [(f"baseline: {one.path.name} demonstrations", one) for one in run.baselines]
    seed, file = load_run(run).seed, run.report / "episodes.csv"
    parts = [*evaluated_runs(run), *baselines]
    played = [one for kind, part in parts for one in evaluations_of(part.path, kind, seed)]
    if not played:
        return []
    write_episodes(played, file)
    return [file]


def unsafe_rubrics(config: Config) -> list[str]:
    """A line for each environment that was trained on although its rubric is unsafe (``allow_unsafe``)."""
    return [
        f"the rubric of '{section.label}' is unsafe (env.allow_unsafe = true): process rewards can outrank the outcome"
        ", so a higher reward need not mean a better agent"
        for section in config.env
        if section.allow_unsafe
    ]


def overlaps_of(run: RunFolder) -> list[str]:
    """The overlap of the evaluated splits with training, if it was measured."""
    return overlap_lines(read_overlaps(run.overlap)) if run.overlap.exists() else []


def _tell_success(runs: Mapping[str, Phases], console: Console) -> list[str]:
    """Print the success rates of some runs by title; returns the same as sections of ``summary.md``."""
    for title, phases in runs.items():
        console.print(f"\n{title}", highlight=False)
        print_comparison(console, phases)
    if not runs:
        return []
    told = note(success for phases in runs.values() for results in phases.values() for success in results)
    console.print(told, markup=False, highlight=False)
    return [*(f"## {title}\n\n{comparison_markdown(phases)}" for title, phases in runs.items()), f"{told}\n"]


def _tell_abstention(title: str, run: RunFolder, console: Console) -> str:
    """Print how many answered and abstained in the evaluations of one run in which some tasks had no answer; returns
    the same as a section of ``summary.md``, or nothing."""
    lines = [
        f"{phase}, {one.split}, temperature {one.temperature:g}; {line}"
        for phase, one in read_evaluations(run.path)
        if one.abstention is not None
        for line in abstention_lines(one.abstention)
    ]
    if not lines:
        return ""
    heading = f"answered and held back, {title}"
    console.print("\n" + "\n".join([heading, *lines]), markup=False, highlight=False, soft_wrap=True)
    return f"## {heading}\n\n" + "".join(f"* {line}\n" for line in lines)


def _tell_withheld(lines: Sequence[str], console: Console) -> list[str]:
    """Print which experience memory evaluations did not show; returns the same as a section of ``summary.md``."""
    if not lines:
        return []
    heading = "experience memory in evaluations"
    console.print("\n" + "\n".join([heading, *lines]), markup=False, highlight=False, soft_wrap=True)
    return [f"## {heading}\n\n" + "".join(f"* {line}\n" for line in lines)]


def _tell_alarms(title: str, run: RunFolder, rows: Sequence[Metrics], console: Console) -> str:
    """Print the alarms of one run, or that there are none; returns the same as a section of ``summary.md``."""
    raised, heading = read_alarms(run.path), f"alarms, {title}"
    console.print(f"\n{heading}", highlight=False)
    told = [line for line in (usable_line(rows), missing_line(rows)) if line]
    for line in told:
        console.print(line, markup=False, highlight=False)
    said = f"## {heading}\n\n" + "".join(f"{line}\n\n" for line in told)
    if not raised:
        sentence = no_alarms(rows)
        console.print(sentence, highlight=False)
        return f"{said}{sentence}\n"
    print_table(console, alarm_table(raised))
    return f"{said}{alarm_markdown(raised)}"


def evaluated_runs(run: RunFolder) -> list[tuple[str, RunFolder]]:
    """The run and its controls, each with its title."""
    title = "evaluation" if run.result.exists() else "training"
    return [(title, run), *((f"control: {one.path.name.replace('_', ' ')}", one) for one in run.controls)]


def phases_of(run: RunFolder) -> dict[str, list[Success]]:
    """The evaluations of a run by phase, in the order in which they were made."""
    found: dict[str, list[Success]] = {}
    for phase, evaluation in read_evaluations(run.path):
        found.setdefault(phase, []).append(_success(evaluation))
    return found


def _success(evaluation: Evaluation) -> Success:
    return Success(
        split=evaluation.split,
        temperature=evaluation.temperature,
        successes=sum(evaluation.success_B),
        n=len(evaluation.success_B),
        unusable=evaluation.unusable,
        tasks=evaluation.tasks,
        questions=evaluation.questions,
        by_question=by_question(evaluation.question_B, evaluation.success_B),
    )


def _draw(run: RunFolder) -> list[Path]:
    config, folder = load_run(run), run.report
    name, seed = run.path.name, config.seed
    rows = {f"{title}, seed {seed}": found for title, one in evaluated_runs(run) if (found := _metrics(one))}
    if not rows:
        return []
    own = rows[f"training, seed {seed}"]
    pictures = []
    if any(len(unaided_success(found)[0]) for found in rows.values()):  # a guide may help in every episode
        title = f"{name}, seed {seed}: success in training episodes" + (" without help" if was_guided(own) else "")
        plot_success(rows, folder / "success.png", title=title, about=episodes_line(config, rows))
        pictures.append(folder / "success.png")
    title = f"{name}, seed {seed}: training episodes"
    plot_curves(own, folder / "curves.png", title=title, about=episodes_line(config, {"": own}))
    pictures.append(folder / "curves.png")
    if was_guided(own):
        plot_guidance(own, folder / PICTURE, title=f"{name}, seed {seed}: guidance in training")
        pictures.append(folder / PICTURE)
    if is_monitored(own):
        title = f"{name}, seed {seed}: hacking and starvation monitors of training episodes"
        plot_monitors(own, read_alarms(run.path), folder / "monitors.png", title=title)
        pictures.append(folder / "monitors.png")
    return pictures


def _draw_strips(run: RunFolder) -> list[Path]:
    """Strips of screenshots of a few episodes of the last recorded step, where their observations hold images."""
    store = Store(run.path)
    last = store.last_step(None)
    shown = [] if last is None else store.with_images(last, STRIPS)
    pictures = [run.report / f"screenshots_{number}.png" for number in range(len(shown))]
    for trajectory, picture in zip(shown, pictures, strict=True):
        draw_strip(trajectory, picture)
    return pictures


def episodes_line(config: Config, runs: Mapping[str, Sequence[Metrics]]) -> str:
    """Which episodes the curves of these runs are about: their split, how they were sampled, and how many broke."""
    splits = " and ".join(f"split '{section.split}' of {section.label}" for section in config.env)
    hints = "no hints" if isinstance(config.guide, NoGuidePart) else f"hints by guide '{config.guide.type}'"
    shares = [row["train/unusable_share"] for rows in runs.values() for row in rows if "train/unusable_share" in row]
    lost = f"{fmean(shares):.1%} unusable" if shares else "unusable ones not counted"
    chosen = "" if config.curriculum.type == "order" else f", tasks chosen by curriculum '{config.curriculum.type}'"
    return f"{splits}{chosen}, sampled at temperature {config.policy.temperature:g}, {hints}; {lost}"


def _metrics(run: RunFolder) -> list[Metrics]:
    """The metrics of each training step; empty for a run without training."""
    return read_metrics(run.metrics) if run.metrics.exists() else []
