"""What comes out of the runs: a CSV, a figure, and the table of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from examples.code_repair.report import smooth
from examples.guidance_study.settings import HELP
from examples.measured import said
from turngate.config import load_run
from turngate.evaluations import read_evaluations
from turngate.runs import RunFolder

LAST = 5  # updates over which the share of guided episodes at the end is averaged


class Run(NamedTuple):
    """One run: by update the success of unaided training episodes (None where there were none), the share of guided
    episodes and the environment steps, helped ones too; held-out success by ("sampled" or "greedy", "before" or
    "after"); seconds of all updates."""

    kind: str
    seed: int
    unaided: Sequence[float | None]
    guided: Sequence[float]
    env_steps: Sequence[float]
    results: Mapping[tuple[str, str], float]
    time_s: float


def read_run(path: Path, kind: str, seed: int) -> Run:
    """A run that is complete."""
    rows = [json.loads(line) for line in RunFolder(path).metrics.read_text().splitlines()]
    alone = "train/success" if kind == "plain" else "guide/unguided_success"
    train = load_run(RunFolder(path)).train
    episodes = train.tasks_per_step * train.group_size
    steps = [row.get("guide/env_steps", row["train/turns"] * episodes) for row in rows]
    results = {
        ("sampled" if found.temperature else "greedy", phase): found.rate for phase, found in read_evaluations(path)
    }
    return Run(
        kind,
        seed,
        [row.get(alone) for row in rows],
        [row.get("guide/guided_share", 0.0) for row in rows],
        steps,
        results,
        sum(value for row in rows for name, value in row.items() if name.startswith("time/")),
    )


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each update of each run, and for each of its evaluations."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["help", "seed", "update", "env_steps", "guided_share", "unaided_success", "evaluation"])
        for run in runs:
            for (sampling, phase), rate in run.results.items():
                lines.writerow([run.kind, run.seed, "", "", "", f"{rate:.6g}", f"{sampling} {phase}"])
            total = 0.0
            for update, (alone, guided, steps) in enumerate(
                zip(run.unaided, run.guided, run.env_steps, strict=True), 1
            ):
                total += steps
                rate = "" if alone is None else f"{alone:.6g}"
                lines.writerow([run.kind, run.seed, update, f"{total:.0f}", f"{guided:.6g}", rate, ""])


def write_figure(runs: Sequence[Run], path: Path) -> None:
    """Unaided success and the share of guided episodes over the updates, side by side; both axes begin at 0."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seeds = sorted({run.seed for run in runs})
    figure = Figure(figsize=(11.5, 4.4), dpi=110, layout="constrained")
    figure.suptitle(
        f"a lock of twelve dials, seeds {', '.join(map(str, seeds))}; means of {LAST} updates; thin: a seed, bold: mean",
        fontsize=11,
    )
    titles = ("success of unaided training episodes", "share of episodes with help")
    for axes, title, measure in zip(figure.subplots(1, 2), titles, ("unaided", "guided"), strict=True):
        for kind in kinds(runs):
            curves = [smooth(_filled(getattr(run, measure)), LAST) for run in runs if run.kind == kind]
            for curve in curves:
                axes.plot(range(1, len(curve) + 1), curve, color=HELP[kind].colour, linewidth=0.6, alpha=0.5)
            mean = [fmean(values) for values in zip(*curves, strict=True)]
            axes.plot(range(1, len(mean) + 1), mean, color=HELP[kind].colour, linewidth=2.2, label=HELP[kind].title)
        axes.set_xlabel("updates")
        axes.set_ylabel(title)
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


def kinds(runs: Sequence[Run]) -> list[str]:
    """Those that there are runs of, in the order of ``HELP``."""
    return [kind for kind in HELP if any(run.kind == kind for run in runs)]


def tables(runs: Sequence[Run]) -> str:
    """Held-out success before and after, and how much help there was, as Markdown."""
    seeds = sorted({run.seed for run in runs})
    updates = sorted({len(run.guided) for run in runs})
    lines = [
        f"Seeds {', '.join(map(str, seeds))}; {' or '.join(map(str, updates))} updates. Success: held-out, unaided, "
        "mean over seeds [95 %].",
        "",
        "| help | sampled, before | sampled, after | greedy, after | sampled, after, seed by seed | guided episodes | "
        f"guided, last {LAST} updates | environment steps |",
        "|---|---|---|---|---|---|---|---|",
        *[_line([run for run in runs if run.kind == kind], HELP[kind].title) for kind in kinds(runs)],
    ]
    return "\n".join(lines)


def _line(runs: Sequence[Run], title: str) -> str:
    after = [run.results["sampled", "after"] for run in runs]
    cells = [
        title,
        said([run.results["sampled", "before"] for run in runs]),
        said(after),
        said([run.results["greedy", "after"] for run in runs]),
        ", ".join(f"{rate:.2f}" for rate in after),
        f"{fmean(fmean(run.guided) for run in runs):.1%}",
        f"{fmean(fmean(run.guided[-LAST:]) for run in runs):.1%}",
        f"{fmean(sum(run.env_steps) for run in runs):,.0f}",
    ]
    return f"| {' | '.join(cells)} |"
