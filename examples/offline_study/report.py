"""What comes out of the runs: a CSV, a figure, and the tables of the page.

Two models are compared task by task, on the same held-out tasks at the same seeds; a task of one seed is another one
than that of the next, because the models are. So these intervals say how sure a difference between these models is. How
much another seed would differ is told by the interval in which seeds are the unit.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from examples.measured import said_difference
from examples.offline_study.settings import ENVIRONMENTS, OFFLINE, ON_TOP, ONLINE, START, STORE, Wanted
from examples.offline_study.training import validated
from turngate.report.episodes import PlayedEvaluation, sampling_of
from turngate.report.intervals import Interval, SuccessCount, by_question, paired_difference
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.types import Metrics

TITLES = {
    START: "start",
    **{name: arm.title for name, arm in OFFLINE.items()},
    ON_TOP: "best offline, 20 % played on top",
    ONLINE: "online",
}
COLOURS = {arm: OFFLINE[arm].colour if arm in OFFLINE else "#000000" for arm in TITLES} | {ON_TOP: "#D55E00"}
SAMPLINGS = ("sampled", "greedy")


class Run(NamedTuple):
    """One arm of one seed: its held-out evaluations, "sampled" and "greedy"; success on validation tasks after its last
    update (None where nothing was chosen by it); the metrics of its updates. "start" is what all began with, as the run
    that learns online evaluated it."""

    arm: str
    seed: int
    held_out: Mapping[str, Evaluation]
    validated: float | None
    rows: Sequence[Metrics]
    best: str = ""

    @property
    def time_s(self) -> float:
        """Seconds that all updates took."""
        return sum(value for row in self.rows for name, value in row.items() if name.startswith("time/"))

    @property
    def played(self) -> list[PlayedEvaluation]:
        """Its evaluations, for ``write_episodes``."""
        phase = "before" if self.arm == START else "after"
        return [PlayedEvaluation(self.arm, self.seed, phase, one) for one in self.held_out.values()]


def read_runs(wanted: Sequence[Wanted]) -> Iterator[Run]:
    """Those of these runs that are complete; the store has metrics alone, and "start" is read from online's run."""
    for one in wanted:
        if one.arm == START or not one.folder.is_complete:
            continue
        rows, chosen = read_metrics(one.folder.metrics), one.folder.validated.exists()
        found = {(phase, sampling_of(other)): other for phase, other in read_evaluations(one.folder.path)}
        if one.arm == ONLINE:
            yield Run(START, one.seed, {how: found["before", how] for how in SAMPLINGS}, None, ())
        held_out = {} if one.arm == STORE else {how: found["after", how] for how in SAMPLINGS}
        score = validated(one.folder) if chosen else None
        yield Run(one.arm, one.seed, held_out, score, rows, one.best)


def write_csv(runs: Mapping[str, Sequence[Run]], path: Path) -> None:
    """One line for each held-out evaluation, for each validation by which the best arm was chosen, and for the success
    of the episodes that each update played. ``best``: of the run on top, the arm that it goes on from."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["env", "arm", "best", "seed", "split", "sampling", "update", "episodes", "success"])
        for place, run in ((place, run) for place, some in runs.items() for run in some):
            fixed = [place, run.arm, run.best, run.seed]
            for how, found in run.held_out.items():
                rate = f"{found.rate:.6g}"
                lines.writerow([*fixed, found.split, how, len(run.rows), len(found.success_B), rate])
            if run.validated is not None:
                lines.writerow([*fixed, "validation", "mean", len(run.rows), "", f"{run.validated:.6g}"])
            for row in run.rows:
                if run.arm not in OFFLINE and "train/success" in row:  # theirs is that of the store's episodes
                    rate = f"{row['train/success']:.6g}"
                    lines.writerow([*fixed, "train", "sampled", f"{row['step']:.0f}", "", rate])


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(place: str, runs: Sequence[Run]) -> str:
    """What the store was, and held-out success of every arm, as Markdown."""
    lines = [
        f"Seeds {', '.join(map(str, seeds_of(runs)))}, {ENVIRONMENTS[place].title}. {_of_store(runs)} Success on "
        "held-out tasks in %, unaided, seed by seed, and the mean. Differences in points: [95 % by task, paired]; in "
        "the last column, as shares, seeds are the unit.",
    ]
    for how in SAMPLINGS:
        lines += [
            "",
            f"| {how} | updates | validation | seed by seed | mean | less start | less online | less online, by seed |",
            "|---|---|---|---|---|---|---|---|",
            *[_row(runs, arm, how) for arm in arms_of(runs)],
        ]
    chosen = [f"seed {run.seed}: {TITLES[run.best]}" for run in runs if run.arm == ON_TOP]
    return "\n".join([*lines, "", f"Best offline by validation: {'; '.join(chosen)}."])


def _of_store(runs: Sequence[Run]) -> str:
    """How good the recorded episodes were, first and last."""
    curves = [[row["train/success"] for row in run.rows] for run in runs if run.arm == STORE]
    whole = ", ".join(f"{100 * fmean(curve):.0f}" for curve in curves)
    first, last = [fmean(part) for part in zip(*[_ends(curve) for curve in curves], strict=True)]
    return (
        f"Of the store's episodes {whole} % are successes, seed by seed: {100 * first:.0f} % in its first fifth, "
        f"{100 * last:.0f} % in its last."
    )


def _ends(curve: Sequence[float]) -> tuple[float, float]:
    n = max(1, len(curve) // 5)
    return fmean(curve[:n]), fmean(curve[-n:])


def _row(runs: Sequence[Run], arm: str, how: str) -> str:
    own = [run for run in runs if run.arm == arm]
    rates = [run.held_out[how].rate for run in own]
    chosen = [run.validated for run in own if run.validated is not None]
    updates = sorted({len(run.rows) for run in own})
    before = "as the best + " if arm == ON_TOP else ""
    cells = [
        TITLES[arm],
        before + ", ".join(map(str, updates)),
        f"{100 * fmean(chosen):.1f}" if chosen else "",
        ", ".join(f"{100 * rate:.1f}" for rate in rates),
        f"**{100 * fmean(rates):.1f}**",
        "" if arm == START else _points(difference(runs, START, arm, how)),
        "" if arm == ONLINE else _points(difference(runs, ONLINE, arm, how)),
        "" if arm == ONLINE else said_difference(_by_seed(runs, arm, how)),
    ]
    return f"| {' | '.join(cells)} |"


def difference(runs: Sequence[Run], before: str, after: str, how: str) -> Interval:
    """Success of one arm less that of another, over the tasks of all seeds that have both, each task of each seed
    compared with itself."""
    counts: dict[str, dict[str, SuccessCount]] = {before: {}, after: {}}
    for seed in sorted(_seeds(runs, before) & _seeds(runs, after)):
        for arm, found in counts.items():
            (one,) = (run.held_out[how] for run in runs if (run.arm, run.seed) == (arm, seed))
            asked = by_question(one.question_B, one.success_B)
            found |= {f"{seed} {question}": count for question, count in asked.items()}
    return paired_difference(counts[before], counts[after])


def _by_seed(runs: Sequence[Run], arm: str, how: str) -> list[float]:
    rates = {(run.arm, run.seed): run.held_out[how].rate for run in runs if run.held_out}
    both = sorted(_seeds(runs, arm) & _seeds(runs, ONLINE))
    return [rates[arm, seed] - rates[ONLINE, seed] for seed in both]


def _points(found: Interval) -> str:
    return f"{100 * found.value:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _seeds(runs: Sequence[Run], arm: str) -> set[int]:
    return {run.seed for run in runs if run.arm == arm}


def seeds_of(runs: Sequence[Run]) -> list[int]:
    """In ascending order."""
    return sorted({run.seed for run in runs})


def arms_of(runs: Sequence[Run]) -> list[str]:
    """Those that were evaluated, in the order of ``TITLES``."""
    return [arm for arm in TITLES if any(run.arm == arm for run in runs)]


# --- figure -----------------------------------------------------------------------------------------------------------


def write_figure(runs: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Held-out success of every arm: a point for each seed, a bar at their mean; a row for each environment."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 0.6 + 3.6 * len(runs)), dpi=110, layout="constrained")
    figure.suptitle(
        "Learning from recorded episodes alone, and by playing; points: seeds, bar: their mean", fontsize=11
    )
    panels = figure.subplots(len(runs), len(SAMPLINGS), squeeze=False, sharex=True)
    for row, (place, some) in zip(panels, runs.items(), strict=True):
        for axes, how in zip(row, SAMPLINGS, strict=True):
            seeds = ", ".join(map(str, seeds_of(some)))
            axes.set_title(f"{ENVIRONMENTS[place].title}, {how} (seeds {seeds})", fontsize=10)
            _draw(axes, some, how, named=how == SAMPLINGS[0])
    for axes in panels[-1]:
        axes.set_xlabel("success on held-out tasks, unaided, %")
    FigureCanvasAgg(figure).print_figure(path)


def _draw(axes: Any, runs: Sequence[Run], how: str, *, named: bool) -> None:
    arms = arms_of(runs)
    for place, arm in enumerate(reversed(arms)):
        rates = [100 * run.held_out[how].rate for run in runs if run.arm == arm]
        axes.plot(rates, [place] * len(rates), "o", color=COLOURS[arm], alpha=0.6, markersize=5, clip_on=False)
        axes.plot([fmean(rates)] * 2, [place - 0.32, place + 0.32], color=COLOURS[arm], linewidth=2.4)
        if arm in (START, ONLINE):
            axes.axvline(fmean(rates), color=COLOURS[arm], linewidth=0.8, linestyle=":" if arm == START else "--")
    axes.set_yticks(
        range(len(arms)), [TITLES[arm] for arm in reversed(arms)] if named else [""] * len(arms), fontsize=9
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.6, len(arms) - 0.4)
    axes.spines[["top", "right"]].set_visible(False)
