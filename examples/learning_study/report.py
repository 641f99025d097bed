"""What comes out of the runs: a CSV, a figure, and the table of the page."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from examples.intervals import interval
from examples.learning_study.training import TRAINED
from turngate.errors import ConfigError
from turngate.report.curves import plot_success
from turngate.report.episodes import PlayedEvaluation, sampling_of
from turngate.report.intervals import by_question, paired_difference, rate_by_question
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.evaluation.overlap import overlap_lines, read_overlaps
from turngate.trainer.evaluation.validation_passes import WarmStartRecord, read_passes
from turngate.types import Metrics


class Run(NamedTuple):
    """A run that is complete: the metrics of its updates, and its evaluations by (phase, "sampled" or "greedy").

    ``kind``: "training", the name of a control, or of a supervised baseline its number of demonstrations.
    """

    kind: str
    seed: int
    rows: Sequence[Metrics]
    evaluations: Mapping[tuple[str, str], Evaluation]

    @property
    def time_s(self) -> float:
        """Seconds that all updates took."""
        return sum(value for row in self.rows for name, value in row.items() if name.startswith("time/"))

    @property
    def played(self) -> list[PlayedEvaluation]:
        """Its evaluations, for ``write_episodes``."""
        return [PlayedEvaluation(self.kind, self.seed, phase, one) for (phase, _), one in self.evaluations.items()]


def read_runs(folder: RunFolder, seed: int) -> list[Run]:
    """The training of one seed, its controls and its supervised baselines, as far as they are complete."""
    kinds = [(TRAINED, folder), *((one.path.name, one) for one in (*folder.controls, *folder.baselines))]
    return [_read(kind, seed, one) for kind, one in kinds if one.is_complete]


def _read(kind: str, seed: int, folder: RunFolder) -> Run:
    found = {(phase, sampling_of(one)): one for phase, one in read_evaluations(folder.path)}
    rows = read_metrics(folder.metrics) if folder.metrics.exists() else []  # a supervised baseline has no updates
    return Run(kind, seed, rows, found)


# --- files ------------------------------------------------------------------------------------------------------------


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each evaluation of each run, and for each of its updates."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["kind", "seed", "split", "sampling", "phase", "episodes", "success"])
        for run in runs:
            for (phase, sampling), found in run.evaluations.items():
                played = len(found.success_B)
                lines.writerow([run.kind, run.seed, found.split, sampling, phase, played, f"{found.rate:.6g}"])
            for row in run.rows:
                rate = f"{row['train/success']:.6g}"
                lines.writerow([run.kind, run.seed, "train", "sampled", f"{row['step']:.0f}", "", rate])


def write_figure(runs: Sequence[Run], path: Path, title: str) -> None:
    """Success in training episodes, means over seeds, of the training and of each control."""
    curves = {kind.replace("_", " "): _mean_curve([run for run in runs if run.kind == kind]) for kind in trained(runs)}
    about = f"unaided training episodes, means over seeds {', '.join(map(str, seeds_of(runs)))}"
    plot_success(curves, path, title=title, about=about)


def _mean_curve(runs: Sequence[Run]) -> list[Metrics]:
    return [
        {"step": rows[0]["step"], "train/success": fmean(row["train/success"] for row in rows)}
        for rows in zip(*(run.rows for run in runs), strict=True)
    ]


# --- the table --------------------------------------------------------------------------------------------------------


def trained(runs: Sequence[Run]) -> list[str]:
    """The training, then its controls: the kinds that were updated by rewards."""
    return list(dict.fromkeys(run.kind for run in runs if not run.kind.isdecimal()))


def seeds_of(runs: Sequence[Run]) -> list[int]:
    """In ascending order."""
    return sorted({run.seed for run in runs})


def table(runs: Sequence[Run]) -> str:
    """Held-out success of every seed before and after training and its controls, as Markdown."""
    controls = trained(runs)[1:]
    heading = ["seed", "", "before, % [95 %]", "after, % [95 %]", "difference, points [95 %]"]
    heading += [f"{control.replace('_', ' ')}, %" for control in controls]
    lines = [heading, ["---"] * len(heading)]
    for sampling in ("sampled", "greedy"):
        lines += [_of_seed(runs, seed, sampling, controls) for seed in seeds_of(runs)]
    if len(seeds_of(runs)) > 1:
        lines += [_of_all(runs, sampling, controls) for sampling in ("sampled", "greedy")]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _of_seed(runs: Sequence[Run], seed: int, sampling: str, controls: Sequence[str]) -> list[str]:
    own = {run.kind: run.evaluations for run in runs if run.seed == seed}
    before, after = (own[TRAINED][phase, sampling] for phase in ("before", "after"))
    change = paired_difference(*(by_question(one.question_B, one.success_B) for one in (before, after)))
    ended = [f"{100 * own[one]['after', sampling].rate:.1f}" if one in own else "–" for one in controls]
    said = f"**{100 * change.value:+.1f}** [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    return [str(seed), sampling, _rate(before), _rate(after), said, *ended]


def _of_all(runs: Sequence[Run], sampling: str, controls: Sequence[str]) -> list[str]:
    """Means over seeds; of the difference with an interval in which seeds are the unit."""
    trained = [run.evaluations for run in runs if run.kind == TRAINED]
    before, after = ([one[phase, sampling].rate for one in trained] for phase in ("before", "after"))
    change = interval([b - a for a, b in zip(before, after, strict=True)], low=-1, high=1)
    ended = [[run.evaluations["after", sampling].rate for run in runs if run.kind == one] for one in controls]
    means = [
        f"{100 * fmean(rates):.1f}" if len(rates) == len(trained) else "–" for rates in (before, after, *ended)
    ]  # a control of some seeds only has no mean beside theirs
    mean, low, high = (100 * value for value in change)
    said = f"**{mean:+.1f}** [{low:+.1f}, {high:+.1f}]"
    return ["mean", sampling, *means[:2], said, *means[2:]]


def supervised_table(runs: Sequence[Run], folders: Mapping[int, RunFolder]) -> list[str]:
    """Held-out success by number of demonstrations, of every seed, as Markdown; nothing without supervised baselines.

    A supervised model that was cut off before validation stopped improving is marked, and is not the best one.
    """
    numbers = sorted({int(run.kind) for run in runs if run.kind.isdecimal()})
    if not numbers:
        return []
    seeds = seeds_of(runs)
    heading = ["learned by", "demonstrations", *(f"seed {seed}: sampled, greedy, %" for seed in seeds)]
    own = {(run.kind, run.seed): run.evaluations for run in runs}
    shown = [_passes(folders[seeds[0]]).demonstrations, *numbers]
    rows = [("supervised", str(n), TRAINED if n == shown[0] else str(n), "before") for n in shown]
    rows.insert(1, ("rewards", str(shown[0]), TRAINED, "after"))
    lines = [heading, ["---"] * len(heading)]
    for name, n, kind, phase in rows:
        cut = {seed: phase == "before" and not _passes(_folder(folders[seed], kind)).converged for seed in seeds}
        cells = [
            f"{_both(own[kind, seed], phase)}{' (cut off)' if cut[seed] else ''}" if (kind, seed) in own else "–"
            for seed in seeds
        ]
        lines.append([name, n, *cells])
    return ["\n".join(f"| {' | '.join(cells)} |" for cells in lines)]


def _folder(run: RunFolder, kind: str) -> RunFolder:
    return run.baseline(int(kind)) if kind.isdecimal() else run


def _passes(run: RunFolder) -> WarmStartRecord:
    found = read_passes(run)
    if found is None:
        raise ConfigError(f"'{run.path}' has no validation, which tells when a supervised model has converged")
    return found


def _both(evaluations: Mapping[tuple[str, str], Evaluation], phase: str) -> str:
    return ", ".join(f"{100 * evaluations[phase, sampling].rate:.1f}" for sampling in ("sampled", "greedy"))


def _rate(found: Evaluation) -> str:
    _, low, high = rate_by_question(by_question(found.question_B, found.success_B))
    return f"{100 * found.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def beforehand(folder: RunFolder) -> list[str]:
    """Which pass of the warm start was chosen, and what the held-out split shares with training."""
    passes = read_passes(folder)
    shared = overlap_lines(read_overlaps(folder.overlap)) if folder.overlap.exists() else []
    return [*([] if passes is None else [passes.line]), *shared]
