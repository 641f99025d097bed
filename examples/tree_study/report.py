"""What comes out of the study: a CSV, a figure, and the tables of the page. Seeds are the unit of every interval."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from examples.code_repair.report import smooth
from examples.credit_study.settings import ENVIRONMENTS
from examples.measured import said_difference, said_rate, trials
from examples.tree_study.settings import KINDS, LEAVES, chain_turns
from examples.tree_study.values import LEAVES as VALUE_LEAVES
from examples.tree_study.values import TurnValue
from turngate.config.run_config import load_run
from turngate.report.episodes import PlayedEvaluation, evaluations_of, sampling_of
from turngate.store.folder import RunFolder

WINDOW = 5  # updates over which success in training is averaged


class Run(NamedTuple):
    """One run. By update: success, sampled tokens, turns of an episode, and environment steps. ``results``: held-out
    success by ("sampled" or "greedy", "before" or "after"); ``episodes``: of an update; ``time_s``: of all updates;
    ``played``: its evaluations."""

    label: str
    kind: str
    seed: int
    success: Sequence[float]
    tokens: Sequence[float]
    turns: Sequence[float]
    env_steps: Sequence[float]
    results: dict[tuple[str, str], float]
    episodes: int
    time_s: float
    played: Sequence[PlayedEvaluation] = ()

    @property
    def saved(self) -> float:
        """Share of environment steps that chains of the same lengths would have taken in addition."""
        return 1 - sum(self.env_steps) / (self.episodes * sum(self.turns))

    @property
    def saved_by_model(self) -> float:
        """The same by the cost model, for episodes that are all as long as those of this run are on average."""
        turns = round(fmean(self.turns))
        return 1 - KINDS[self.kind].sampled(turns) / chain_turns(turns)


def read_run(path: Path, label: str, kind: str, seed: int) -> Run:
    """A run that is complete."""
    rows = [json.loads(line) for line in RunFolder(path).metrics.read_text().splitlines()]
    train = load_run(RunFolder(path)).train
    episodes = train.tasks_per_step * train.group_size
    played = list(evaluations_of(path, kind, seed))
    return Run(
        label,
        kind,
        seed,
        [row["train/success"] for row in rows],
        [row["train/sampled_tokens"] for row in rows],
        [row["train/turns"] for row in rows],
        [row.get("branch/env_steps", row["train/turns"] * episodes) for row in rows],
        {(sampling_of(found), phase): found.rate for *_, phase, found in played},
        episodes,
        sum(value for row in rows for name, value in row.items() if name.startswith("time/")),
        played,
    )


def kinds(runs: Sequence[Run]) -> list[str]:
    """Those that there are runs of, in the order of ``KINDS``."""
    return [kind for kind in KINDS if any(run.kind == kind for run in runs)]


def success_at(run: Run, tokens: float) -> float:
    """Mean success in training of the last ``WINDOW`` updates that ended before ``tokens`` were sampled."""
    within = [
        rate for rate, total in zip(run.success, accumulate(run.tokens), strict=True) if total <= tokens * (1 + 1e-9)
    ]
    return fmean((within or run.success[:1])[-WINDOW:])


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """One line for each update of each run, and for each of its evaluations."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["env", "kind", "seed", "update", "sampled_tokens", "env_steps", "success", "evaluation"])
        for run in runs:
            place = [run.label, run.kind, run.seed]
            for (how, phase), rate in run.results.items():
                lines.writerow([*place, "", "", "", f"{rate:.6g}", f"{how} {phase}"])
            totals = zip(accumulate(run.tokens), accumulate(run.env_steps), run.success, strict=True)
            for update, (tokens, steps, rate) in enumerate(totals, 1):
                lines.writerow([*place, update, f"{tokens:.0f}", f"{steps:.0f}", f"{rate:.6g}", ""])


def write_figure(runs: Sequence[Run], path: Path) -> None:
    """Success in training of one environment against the tokens sampled; a line for each run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=110, layout="constrained")
    axes = figure.subplots()
    title = ENVIRONMENTS[runs[0].label].title
    axes.set_title(f"{title}\nmean success of {WINDOW} updates in training; a line for each seed", fontsize=9)
    for kind in kinds(runs):
        for number, run in enumerate(run for run in runs if run.kind == kind):
            name = KINDS[kind].title if number == 0 else None
            curve = smooth(run.success, WINDOW)
            axes.plot(list(accumulate(run.tokens)), curve, color=KINDS[kind].colour, linewidth=1.2, label=name)
    axes.set_xlabel("sampled tokens")
    axes.set_ylabel("success")
    axes.set_ylim(-0.02, 1.02)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize=8)
    FigureCanvasAgg(figure).print_figure(path)


def table(runs: Sequence[Run]) -> str:
    """What the kinds reach with equally many tokens, and what they cost, as Markdown."""
    label, seeds = runs[0].label, sorted({run.seed for run in runs})
    lines = [
        f"### {ENVIRONMENTS[label].title}",
        "",
        f"Seeds {', '.join(map(str, seeds))}; {LEAVES} episodes of each task in an update; mean over seeds [95 %].",
        "",
        "| episodes and credit | updates | sampled tokens | success in training, equal tokens | less chains "
        "| held-out, sampled, before | held-out, sampled, after | held-out, greedy, after | environment steps saved "
        "| by the cost model |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *[_line(runs, kind) for kind in kinds(runs)],
    ]
    return "\n".join(lines)


def _line(runs: Sequence[Run], kind: str) -> str:
    mine = [run for run in runs if run.kind == kind]
    least = {run.seed: min(sum(one.tokens) for one in runs if one.seed == run.seed) for run in mine}
    reached = {run.seed: success_at(run, least[run.seed]) for run in mine}
    chains = {run.seed: success_at(run, least[run.seed]) for run in runs if run.kind == "chains" and run.seed in least}
    less = [reached[seed] - chains[seed] for seed in sorted(chains)] if kind != "chains" else []
    cells = [
        KINDS[kind].title,
        f"{len(mine[0].success)}",
        f"{fmean(sum(run.tokens) for run in mine):,.0f}",
        said_rate(list(reached.values())),
        said_difference(less) if less else "",
        *[_rate(mine, *place) for place in (("sampled", "before"), ("sampled", "after"), ("greedy", "after"))],
        f"{fmean(run.saved for run in mine):.1%}",
        f"{fmean(run.saved_by_model for run in mine):.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def _rate(runs: Sequence[Run], sampling: str, phase: str) -> str:
    played = trials((one for run in runs for one in run.played), "heldout", sampling, phase)
    return said_rate([run.results[sampling, phase] for run in runs], played)


def value_table(values: Sequence[TurnValue], n_locks: int) -> str:
    """Turn values by forking beside exact ones, as Markdown."""
    lines = [
        f"{n_locks} locks of three dials, {VALUE_LEAVES} leaves each; the exact values are those of all 64 sequences "
        "of keys.",
        "",
        "| before turn | mean value by forking | mean exact value | difference in standard errors |",
        "|---|---|---|---|",
        *[f"| {one.turn} | {one.forked:.4f} | {one.exact:.4f} | {one.errors_off:.2f} |" for one in values],
    ]
    return "\n".join(lines)
