"""What comes out of the runs: a figure and the tables of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from statistics import fmean

from examples.code_repair.report import Run, ends_and_change, smooth
from examples.sql_gates import settings
from examples.sql_gates.settings import PAYMENTS
from turngate.report.episodes import evaluations_of, sampling_of
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.types import ScoredGroup

MEASURES = {
    "success": "share of episodes that are won",
    "looks": "look-ups per episode",
    "turns": "turns per episode",
    "paid": "reward paid per episode",
}
RANGES = {"looks": (0.0, inf), "turns": (0.0, inf), "paid": (0.0, inf)}
"""Between which values a measure lies; success is a rate, in [0, 1]."""


def foretold() -> Iterator[str]:
    """What the check of each rubric says before any training."""
    for kind, payment in PAYMENTS.items():
        if payment.control is None:
            safety = getattr(settings, payment.rubric).check()
            yield f"{kind} is {'safe' if safety.safe else 'UNSAFE'}:\n{safety}\n"


def read_run(path: Path, kind: str, seed: int) -> Run:
    """A run that is complete: means by update, and held-out by ("heldout", "sampled" or "greedy", phase)."""
    store, updates = Store(path), len(_rows(path))
    steps = [measures(store.read(step, phase="train")) for step in range(1, updates + 1)]
    curves = {name: [step[name] for step in steps] for name in MEASURES}
    results, played = {}, list(evaluations_of(path, kind, seed))
    for *_, phase, found in played:
        sampling = sampling_of(found)
        groups = store.read(0 if phase == "before" else updates, phase=f"{phase}-{found.split}-{sampling}")
        results[found.split, sampling, phase] = measures(groups)
    return Run(kind, seed, curves, results, played)


def time_of(path: Path) -> float:
    """Seconds that all updates of a run took."""
    return sum(value for row in _rows(path) for name, value in row.items() if name.startswith("time/"))


def measures(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Means over the usable episodes."""
    pairs = [pair for group in groups for pair in zip(group.trajectories, group.scores, strict=True)]
    played = [(trajectory, score) for trajectory, score in pairs if score.usable]
    looks = [sum(fact.name == "looked_up" and fact.value is True for fact in t.record().evidence) for t, _ in played]
    return {
        "success": fmean(score.outcome or 0.0 for _, score in played),
        "looks": fmean(looks),
        "turns": fmean(len(trajectory.turns) for trajectory, _ in played),
        "paid": fmean(score.total for _, score in played),
    }


def _rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in RunFolder(path).metrics.read_text().splitlines()]


# --- figure and tables ------------------------------------------------------------------------------------------------


def write_figure(runs: Sequence[Run], path: Path) -> None:
    """Success, look-ups and payments of training episodes over the updates, side by side; every axis begins at 0."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seeds, shown = sorted({run.seed for run in runs}), ("success", "looks", "paid")
    figure = Figure(figsize=(13, 4.4), dpi=110, layout="constrained")
    figure.suptitle(
        f"Sql-v1, look-up questions: one process reward, paid in different ways (seeds {', '.join(map(str, seeds))})\n"
        "training episodes, sampled; thin: one seed, mean of 5 updates; bold: mean over seeds",
        fontsize=11,
    )
    for axes, measure in zip(figure.subplots(1, len(shown)), shown, strict=True):
        for kind in kinds(runs):
            curves = [smooth(run.curves[measure]) for run in runs if run.kind == kind]
            for curve in curves:
                axes.plot(range(1, len(curve) + 1), curve, color=PAYMENTS[kind].colour, linewidth=0.7, alpha=0.5)
            mean = [fmean(values) for values in zip(*curves, strict=True)]
            axes.plot(
                range(1, len(mean) + 1), mean, color=PAYMENTS[kind].colour, linewidth=2.2, label=PAYMENTS[kind].title
            )
        axes.set_xlabel("updates")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel(MEASURES[measure])
        axes.set_ylim(bottom=0.0, top=1.0 if measure == "success" else None)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="best")
    FigureCanvasAgg(figure).print_figure(path)


def kinds(runs: Sequence[Run]) -> list[str]:
    """Those that there are runs of, in the order of ``PAYMENTS``."""
    return [kind for kind in PAYMENTS if any(run.kind == kind for run in runs)]


def tables(runs: Sequence[Run]) -> str:
    """Held-out results before and after, as Markdown."""
    seeds = sorted({run.seed for run in runs})
    updates = sorted({len(run.curves["success"]) for run in runs})
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; {' or '.join(map(str, updates))} updates. Unaided, on held-out tasks.",
        "",
        "| mean over seeds [95 %] | sampling | paid | before | after | change | after, seed by seed |",
        "|---|---|---|---|---|---|---|",
    ]
    for measure in MEASURES:
        for sampling in ("sampled", "greedy"):
            lines += [_line(runs, kind, sampling, measure) for kind in kinds(runs)]
    return "\n".join(lines)


def _line(runs: Sequence[Run], kind: str, sampling: str, measure: str) -> str:
    own = [run for run in runs if run.kind == kind]
    cells = [MEASURES[measure], sampling, kind, *ends_and_change(own, "heldout", sampling, measure, RANGES)]
    each = ", ".join(f"{run.results['heldout', sampling, 'after'][measure]:.2f}" for run in own)
    return f"| {' | '.join(cells)} | {each} |"
