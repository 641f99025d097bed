"""What comes out of the runs: a CSV, a figure, and the tables of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from examples.farming.report import COLOURS
from examples.farming.report import write_page as write_page
from examples.measured import said, said_difference, trials
from turngate.report.episodes import PlayedEvaluation, evaluations_of, sampling_of
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import ScoredGroup, Trajectory

COLOUR = {"direct": COLOURS["summed"], "gated": COLOURS["gated"], "shuffled": "#666666"}
NAMES = {"direct": "direct rewards", "gated": "gated rewards", "shuffled": "gated, credit shuffled (control)"}
MEASURES = {
    "resolved": "episodes that pass all hidden tests",
    "completed": "episodes that submit a patch",
    "modified": "episodes whose patch changes what the reference changes",
    "turns": "turns per episode",
    "paid": "reward paid per episode",
}
RANGES = {"turns": (0.0, inf), "paid": (-1.0, inf)}
"""Between which values a measure lies; the others are rates, in [0, 1]."""
PHASES = ("before", "after")


class Run(NamedTuple):
    """One run: curves over the updates, and held-out results by (split, "sampled" or "greedy", phase).

    ``kind``: gated, direct, or shuffled, the negative control. ``played``: its evaluations.
    """

    kind: str
    seed: int
    curves: Mapping[str, Sequence[float]]
    results: Mapping[tuple[str, str, str], Mapping[str, float]]
    played: Sequence[PlayedEvaluation] = ()


def read_run(path: Path, kind: str, seed: int) -> Run:
    """A run that is complete."""
    rows = [json.loads(line) for line in RunFolder(path).metrics.read_text().splitlines()]
    curves = {name: [row[f"train/{name}"] for row in rows] for name in ("success", "paid", "turns")}
    store, results, played = Store(path), {}, list(evaluations_of(path, kind, seed))
    for *_, phase, evaluation in played:
        sampling = sampling_of(evaluation)
        step = 0 if phase == "before" else len(rows)
        groups = store.read(step, phase=f"{phase}-{evaluation.split}-{sampling}")
        results[evaluation.split, sampling, phase] = measures(groups)
    return Run(kind, seed, curves, results, played)


def measures(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Means over the usable episodes of one evaluation."""
    played = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    facts = [(_facts(trajectory), trajectory, score) for trajectory, score in played if score.usable]
    return {
        "resolved": fmean(bool(found["resolved"]) for found, _, _ in facts),
        "completed": fmean(found["submitted"] and not found["empty_patch"] for found, _, _ in facts),
        "modified": fmean(found.get("localised", 0.0) > 0 for found, _, _ in facts),
        "turns": fmean(len(trajectory.turns) for _, trajectory, _ in facts),
        "paid": fmean(score.total for _, _, score in facts),
    }


def _facts(trajectory: Trajectory) -> dict[str, Any]:
    """The facts of an episode by name, the last of each; the best one for where it changed something."""
    evidence = trajectory.record().evidence
    places = [float(fact.value) for fact in evidence if fact.name == "localised" and isinstance(fact.value, float)]
    return {fact.name: fact.value for fact in evidence} | ({"localised": max(places)} if places else {})


# --- files -----------------------------------------------------------------------------------------------------------


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each run, split, kind of sampling, phase and measure; and for each update."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["kind", "seed", "split", "sampling", "phase", "measure", "value"])
        for run in runs:
            for (split, sampling, phase), values in run.results.items():
                for name, value in values.items():
                    lines.writerow([run.kind, run.seed, split, sampling, phase, name, f"{value:.6g}"])
            for name, curve in run.curves.items():
                for update, value in enumerate(curve, 1):
                    lines.writerow([run.kind, run.seed, "train", "sampled", update, name, f"{value:.6g}"])


def write_figure(runs: Sequence[Run], path: Path) -> None:
    """Success and payments over the updates, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seeds = sorted({run.seed for run in runs})
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    figure.suptitle(
        f"CodeRepair-v1: the same rewards gated and directly accumulated (seeds {', '.join(map(str, seeds))})\n"
        "training episodes, sampled; thin: one seed, mean of 5 updates; bold: mean over seeds",
        fontsize=11,
    )
    labels = {"success": "share of training episodes resolved", "paid": "reward paid per training episode"}
    for axes, (measure, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
        for kind in kinds(runs):
            colour = COLOUR[kind]
            curves = [smooth(run.curves[measure]) for run in runs if run.kind == kind]
            for curve in curves:
                axes.plot(range(1, len(curve) + 1), curve, color=colour, linewidth=0.7, alpha=0.5)
            mean = [fmean(values) for values in zip(*curves, strict=True)]
            axes.plot(range(1, len(mean) + 1), mean, color=colour, linewidth=2.2, label=NAMES[kind])
        axes.set_xlabel("updates")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.dataLim.y0 >= 0:
            axes.set_ylim(bottom=0.0)
    figure.axes[0].set_ylim(0.0, 1.02)
    figure.axes[0].legend(frameon=False, loc="best")
    FigureCanvasAgg(figure).print_figure(path)


def smooth(curve: Sequence[float], width: int = 5) -> list[float]:
    """The mean of each value and those before it, ``width`` in all."""
    return [fmean(curve[max(0, place - width + 1) : place + 1]) for place in range(len(curve))]


def kinds(runs: Sequence[Run]) -> list[str]:
    """Those that there are runs of, in a fixed order."""
    return [kind for kind in COLOUR if any(run.kind == kind for run in runs)]


def tables(runs: Sequence[Run]) -> str:
    """Held-out results before and after, as Markdown."""
    lines = [
        "| unaided, mean over seeds [95 %] | rewards | before | after | change | after, seed by seed |",
        "|---|---|---|---|---|---|",
    ]
    for split, sampling in sorted({(split, sampling) for run in runs for split, sampling, _ in run.results}):
        for measure in MEASURES if (split, sampling) == ("heldout", "sampled") else ("resolved",):
            lines += [_line(runs, kind, split, sampling, measure) for kind in kinds(runs)]
    return "\n".join(lines)


def _line(runs: Sequence[Run], kind: str, split: str, sampling: str, measure: str) -> str:
    own = [run for run in runs if run.kind == kind]
    after = [run.results[split, sampling, "after"][measure] for run in own]
    each = ", ".join(f"{value:.2f}" for value in after)
    name = f"{MEASURES[measure]} ({split}, {sampling})"
    return f"| {name} | {kind} | {' | '.join(ends_and_change(own, split, sampling, measure, RANGES))} | {each} |"


def ends_and_change(
    runs: Sequence[Run], split: str, sampling: str, measure: str, ranges: Mapping[str, tuple[float, float]]
) -> list[str]:
    """A measure before and after, and its change seed by seed, as text; a measure without a range is a rate."""
    low, high = ranges.get(measure, (0.0, 1.0))
    ends = {phase: [run.results[split, sampling, phase][measure] for run in runs] for phase in PHASES}
    is_rate = measure not in ranges
    asked = [trials((one for run in runs for one in run.played), split, sampling, phase) for phase in PHASES]
    cells = [
        said(values, low=low, high=high, trials=n if is_rate else 0)
        for values, n in zip(ends.values(), asked, strict=True)
    ]
    change = [late - early for early, late in zip(ends["before"], ends["after"], strict=True)]
    return [*cells, said_difference(change) if is_rate else said(change, signed=True)]
