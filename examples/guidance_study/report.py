"""What comes out of the runs: a CSV, a figure, and the table of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from examples.code_repair.report import smooth
from examples.guidance_study.settings import ENVIRONMENTS
from examples.measured import said_difference, said_rate, trials
from turngate.config.run_config import load_run
from turngate.report.episodes import PlayedEvaluation, evaluations_of, sampling_of
from turngate.store.folder import RunFolder

LAST = 5  # updates over which the share of guided episodes at the end is averaged
PANELS = (
    ("success of unaided training episodes", "unaided", "updates"),
    ("success of unaided training episodes", "unaided", "steps"),
    ("share of episodes with help", "guided", "updates"),
)


class Run(NamedTuple):
    """One run: by update the success of unaided training episodes (None where there were none), the share of guided
    episodes and the environment steps, helped ones too; held-out success by (split, "sampled" or "greedy", "before" or
    "after"); seconds of all updates; its evaluations."""

    kind: str
    seed: int
    unaided: Sequence[float | None]
    guided: Sequence[float]
    env_steps: Sequence[float]
    results: Mapping[tuple[str, str, str], float]
    time_s: float
    played: Sequence[PlayedEvaluation] = ()


def read_run(path: Path, kind: str, seed: int) -> Run:
    """A run that is complete."""
    rows = [json.loads(line) for line in RunFolder(path).metrics.read_text().splitlines()]
    train = load_run(RunFolder(path)).train
    episodes = train.tasks_per_step * train.group_size
    steps = [row.get("guide/env_steps", row["train/turns"] * episodes) for row in rows]
    played = list(evaluations_of(path, kind, seed))
    results = {(found.split, sampling_of(found), phase): found.rate for *_, phase, found in played}
    return Run(
        kind,
        seed,
        [row.get("guide/unguided_success" if "guide/waves" in row else "train/success") for row in rows],
        [row.get("guide/guided_share", 0.0) for row in rows],
        steps,
        results,
        sum(value for row in rows for name, value in row.items() if name.startswith("time/")),
        played,
    )


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each update of each run, and for each of its evaluations."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(
            ["help", "seed", "update", "env_steps", "guided_share", "unaided_success", "split", "evaluation"]
        )
        for run in runs:
            for (split, sampling, phase), rate in run.results.items():
                lines.writerow([run.kind, run.seed, "", "", "", f"{rate:.6g}", split, f"{sampling} {phase}"])
            total = 0.0
            for update, (alone, guided, steps) in enumerate(
                zip(run.unaided, run.guided, run.env_steps, strict=True), 1
            ):
                total += steps
                rate = "" if alone is None else f"{alone:.6g}"
                lines.writerow([run.kind, run.seed, update, f"{total:.0f}", f"{guided:.6g}", rate, "", ""])


def write_figure(place: str, runs: Sequence[Run], path: Path) -> None:
    """Unaided success over updates and over environment steps, and the share of guided episodes, side by side; every
    axis begins at 0."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    environment, seeds = ENVIRONMENTS[place], sorted({run.seed for run in runs})
    figure = Figure(figsize=(14, 4.4), dpi=110, layout="constrained")
    figure.suptitle(
        f"{environment.title}, seeds {', '.join(map(str, seeds))}; means of {LAST} updates; bold: mean over seeds",
        fontsize=11,
    )
    for axes, (title, measure, across) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for kind in kinds(place, runs):
            help_, curves = environment.help[kind], []
            for run in (run for run in runs if run.kind == kind):
                steps = list(accumulate(run.env_steps)) if across == "steps" else range(1, len(run.guided) + 1)
                curves.append((steps, smooth(_filled(getattr(run, measure)), LAST)))
                axes.plot(*curves[-1], color=help_.colour, linewidth=0.6, alpha=0.5)
            # runs of a kind have nearly the same number of updates and steps: the mean ends with the shortest
            mean = [[fmean(values) for values in zip(*several, strict=False)] for several in zip(*curves, strict=True)]
            axes.plot(*mean, color=help_.colour, linewidth=2.2, label=help_.title)
        axes.set_xlabel("updates" if across == "updates" else "environment steps, helped ones too")
        axes.set_ylabel(title)
        axes.set_xlim(left=0)
        axes.set_ylim(-0.02, 1.02)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="best", fontsize=8)
    FigureCanvasAgg(figure).print_figure(path)


def _filled(values: Sequence[float | None]) -> list[float]:
    """An update without unaided episodes keeps the value of the one before it."""
    found: list[float] = []
    for value in values:
        found.append(value if value is not None else found[-1] if found else 0.0)
    return found


def kinds(place: str, runs: Sequence[Run]) -> list[str]:
    """Those that there are runs of, in the order of the environment."""
    return [kind for kind in ENVIRONMENTS[place].help if any(run.kind == kind for run in runs)]


def tables(place: str, runs: Sequence[Run]) -> str:
    """Held-out success before and after, and how much help there was, as Markdown."""
    seeds = sorted({run.seed for run in runs})
    splits = dict.fromkeys(split for run in runs for split, _, _ in run.results)
    lines = [
        f"Seeds {', '.join(map(str, seeds))}. Success: held-out, unaided, mean over seeds [95 %]. Less no help: the "
        "difference, seed by seed, to as many environment steps without help, where there is such a run, else to as "
        "many updates.",
    ]
    for split in splits:
        lines += [
            "",
            f"| split `{split}`: help | sampled, before | sampled, after | less no help | greedy, after | less no help "
            "| sampled, after, seed by seed |",
            "|---|---|---|---|---|---|---|",
            *[_result(place, runs, kind, split) for kind in kinds(place, runs)],
        ]
    lines += [
        "",
        f"| help | updates | guided episodes | guided, last {LAST} updates | environment steps |",
        "|---|---|---|---|---|",
        *[_cost(place, [run for run in runs if run.kind == kind]) for kind in kinds(place, runs)],
    ]
    return "\n".join(lines)


def _result(place: str, runs: Sequence[Run], kind: str, split: str) -> str:
    own = [run for run in runs if run.kind == kind]
    cells = [
        ENVIRONMENTS[place].help[kind].title,
        _rate(own, split, "sampled", "before"),
        _rate(own, split, "sampled", "after"),
        _less(runs, kind, split, "sampled"),
        _rate(own, split, "greedy", "after"),
        _less(runs, kind, split, "greedy"),
        ", ".join(f"{run.results[split, 'sampled', 'after']:.2f}" for run in own),
    ]
    return f"| {' | '.join(cells)} |"


def _rate(runs: Sequence[Run], *place: str) -> str:
    split, sampling, phase = place
    played = trials((one for run in runs for one in run.played), split, sampling, phase)
    return said_rate([run.results[split, sampling, phase] for run in runs], played)


def _less(runs: Sequence[Run], kind: str, split: str, sampling: str) -> str:
    """The difference to what was learned without help, over the seeds that both have."""
    there = {run.kind for run in runs}
    reference = "longer" if "longer" in there else "plain"
    if kind in ("plain", "longer") or reference not in there:
        return ""
    after = {(run.kind, run.seed): run.results[split, sampling, "after"] for run in runs}
    both = sorted(seed for name, seed in after if name == kind and (reference, seed) in after)
    return said_difference([after[kind, seed] - after[reference, seed] for seed in both])


def _cost(place: str, runs: Sequence[Run]) -> str:
    cells = [
        ENVIRONMENTS[place].help[runs[0].kind].title,
        ", ".join(map(str, sorted({len(run.guided) for run in runs}))),
        f"{fmean(fmean(run.guided) for run in runs):.1%}",
        f"{fmean(fmean(run.guided[-LAST:]) for run in runs):.1%}",
        f"{fmean(sum(run.env_steps) for run in runs):,.0f}",
    ]
    return f"| {' | '.join(cells)} |"
