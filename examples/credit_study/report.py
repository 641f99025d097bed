"""What comes out of the runs: a CSV, a figure, and the tables of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from examples.code_repair.report import smooth
from examples.credit_study.settings import ENVIRONMENTS, REFERENCE, RULES, SAME_WEIGHT
from examples.credit_study.signal import UPDATES as EARLY
from examples.credit_study.signal import Signal, read_signal
from examples.intervals import interval, sign_flip
from examples.measured import said, said_difference, said_rate, trials
from turngate.config.run_config import load_run
from turngate.report.episodes import PlayedEvaluation, evaluations_of, sampling_of
from turngate.store.folder import RunFolder

WINDOW = 5  # updates over which success in training is averaged
COLOURS = {  # of Okabe and Ito, which people with any colour vision tell apart
    "grpo": "#56B4E9",
    "rloo": "#0072B2",
    "rloo_heavy": "#E69F00",
    "gigpo": "#D55E00",
    "capo": "#009E73",
    "capo_light": "#8C6D1F",
    "turn_gae": "#CC79A7",
    "shuffled": "#888888",
}


class Run(NamedTuple):
    """One run: success in training at each update, and held-out success by ("sampled" or "greedy", "before" or
    "after").

    ``episodes``: played per update. ``time_s``: what all updates took. ``signal``: what credit told turns apart by.
    ``played``: its evaluations.
    """

    label: str
    rule: str
    seed: int
    curve: Sequence[float]
    results: Mapping[tuple[str, str], float]
    episodes: int
    time_s: float
    signal: Signal
    played: Sequence[PlayedEvaluation] = ()


def read_run(path: Path, label: str, rule: str, seed: int) -> Run:
    """A run that is complete."""
    folder = RunFolder(path)
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    time_s = sum(value for row in rows for name, value in row.items() if name.startswith("time/"))
    played = list(evaluations_of(path, rule, seed))
    results = {(sampling_of(found), phase): found.rate for *_, phase, found in played}
    train = load_run(folder).train
    episodes, curve = train.tasks_per_step * train.group_size, [row["train/success"] for row in rows]
    return Run(label, rule, seed, curve, results, episodes, time_s, read_signal(path), played)


# --- numbers ----------------------------------------------------------------------------------------------------------


def episodes_until(threshold: float, curve: Sequence[float], episodes: int) -> float:
    """Episodes played until the mean success of ``WINDOW`` updates reaches ``threshold``; inf if it never does."""
    for update in range(WINDOW, len(curve) + 1):
        if fmean(curve[update - WINDOW : update]) >= threshold:
            return update * episodes
    return inf


def differences(runs: Sequence[Run], rule: str, how: str, reference: str = REFERENCE) -> list[float]:
    """Held-out success after training less that of ``reference``, for each seed that both have."""
    after = {(run.rule, run.seed): run.results[how, "after"] for run in runs}
    seeds = sorted(seed for name, seed in after if name == rule and (reference, seed) in after)
    return [after[rule, seed] - after[reference, seed] for seed in seeds]


# --- files ------------------------------------------------------------------------------------------------------------


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each update of each run, and for each of its evaluations."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["env", "rule", "seed", "split", "sampling", "phase", "episodes", "success"])
        for run in runs:
            place = (run.label, run.rule, run.seed)
            for (how, phase), rate in run.results.items():
                played = run.episodes * len(run.curve) if phase == "after" else 0
                lines.writerow([*place, "heldout", how, phase, played, f"{rate:.6g}"])
            for update, rate in enumerate(run.curve, 1):
                lines.writerow([*place, "train", "sampled", update, update * run.episodes, f"{rate:.6g}"])


def write_figure(runs: Sequence[Run], path: Path) -> None:
    """Success in training of one environment against the episodes played."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=110, layout="constrained")
    axes = figure.subplots()
    title = ENVIRONMENTS[runs[0].label].title
    bold = "mean over seeds with its 95 % interval"
    axes.set_title(f"{title}\nsuccess in training, mean of {WINDOW} updates; {bold}", fontsize=9)
    for rule in rules(runs):
        _draw(axes, _of(runs, rule), rule)
    axes.set_xlabel("training episodes")
    axes.set_ylabel("success")
    axes.set_ylim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best")
    FigureCanvasAgg(figure).print_figure(path)


def _draw(axes: Any, runs: Sequence[Run], rule: str) -> None:
    curves = [smooth(run.curve, WINDOW) for run in runs]
    found = [interval(values, low=0, high=1) for values in zip(*curves, strict=True)]
    x = [runs[0].episodes * update for update in range(1, len(found) + 1)]
    name = f"{REFERENCE}, credit shuffled (control)" if rule == "shuffled" else f"{rule} ({RULES[rule]})"
    axes.plot(x, [one.mean for one in found], color=COLOURS[rule], linewidth=2.2, label=name)
    axes.fill_between(
        x, [one.low for one in found], [one.high for one in found], color=COLOURS[rule], alpha=0.15, linewidth=0
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def table(runs: Sequence[Run]) -> str:
    """What every rule ends at in one environment, and how soon it learns, as Markdown."""
    label = runs[0].label
    environment, seeds = ENVIRONMENTS[label], sorted({run.seed for run in runs})
    updates, episodes = len(runs[0].curve), runs[0].episodes
    per_run_s = fmean(run.time_s for run in runs)
    lines = [
        f"### {label}: {environment.title}",
        "",
        f"Seeds {', '.join(map(str, seeds))}; {updates} updates of {episodes} episodes; {per_run_s:.0f} s of updates "
        f"in a run. Held-out, unaided, mean over seeds [95 %].{_left_out(runs)}",
        "",
        f"| credit | compares | sampled, before | sampled, after | less {REFERENCE}, seed by seed | greedy, after | "
        f"success in training, mean | episodes until {environment.threshold:.0%} in training: median (each seed) |",
        "|---|---|---|---|---|---|---|---|",
        *[_line(runs, rule, environment.threshold) for rule in rules(runs)],
        "",
        f"| credit, first {EARLY} updates | correlation with the verdict on the same turn | turns that begin in a "
        "state in which another one of the siblings begins |",
        "|---|---|---|",
        *[_signal(_of(runs, rule), rule) for rule in rules(runs) if rule != "shuffled"],
    ]
    pairs = [(rule, other) for rule, other in SAME_WEIGHT.items() if differences(runs, rule, "sampled", other)]
    if pairs:
        lines += [
            "",
            "| a verdict weighs the same: success after training | sampling | difference, seed by seed | mean [95 %] "
            "| exact p |",
            "|---|---|---|---|---|",
            *[_same_weight(runs, *pair, how) for pair in pairs for how in ("sampled", "greedy")],
        ]
    return "\n".join(lines)


def _same_weight(runs: Sequence[Run], rule: str, other: str, how: str) -> str:
    found = differences(runs, rule, how, other)
    each = ", ".join(f"{value:+.2f}" for value in found)
    return f"| {rule} less {other} | {how} | {each} | {said_difference(found)} | {sign_flip(found):.3f} |"


def _left_out(runs: Sequence[Run]) -> str:
    """Says which runs there are none of, although other rules have that seed."""
    there, seeds = {(run.rule, run.seed) for run in runs}, sorted({run.seed for run in runs})
    missing = [f"{rule} with seed {seed}" for rule in rules(runs) for seed in seeds if (rule, seed) not in there]
    return f" There is no complete run of {', '.join(missing)}." if missing else ""


def _signal(runs: Sequence[Run], rule: str) -> str:
    follows = [run.signal.follows for run in runs if run.signal.follows is not None]
    told = said(follows, low=-1, high=1) if follows else "not recorded"
    return f"| {rule} | {told} | {said([run.signal.shared for run in runs], low=0, high=1)} |"


def _line(runs: Sequence[Run], rule: str, threshold: float) -> str:
    mine = _of(runs, rule)
    sampled = [_rate(mine, "sampled", phase) for phase in ("before", "after")]
    less = differences(runs, rule, "sampled") if rule != REFERENCE else []
    needed = [episodes_until(threshold, run.curve, run.episodes) for run in mine]
    cells = [
        rule,
        RULES[rule],
        *sampled,
        said_difference(less) if less else "",
        _rate(mine, "greedy", "after"),
        said_rate([fmean(run.curve) for run in mine]),
        f"{_count(median(needed))} ({', '.join(map(_count, needed))})",
    ]
    return f"| {' | '.join(cells)} |"


def _rate(runs: Sequence[Run], how: str, phase: str) -> str:
    played = trials((one for run in runs for one in run.played), "heldout", how, phase)
    return said_rate([run.results[how, phase] for run in runs], played)


def _count(episodes: float) -> str:
    return "never" if episodes == inf else f"{episodes:,.0f}"


def rules(runs: Sequence[Run]) -> list[str]:
    """The rules that there are runs of, in the order of ``RULES``."""
    return [rule for rule in RULES if _of(runs, rule)]


def _of(runs: Sequence[Run], rule: str) -> list[Run]:
    return [run for run in runs if run.rule == rule]
