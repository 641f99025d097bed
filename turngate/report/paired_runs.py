"""Two runs, or two recorded phases, on the same tasks: differences, their certainty, and tasks that changed sides.

Episodes are paired by task and seed where both sides played the same seeds, which evaluations of runs with one seed do,
else by task. The interval of every difference is a bootstrap over distinct questions (``intervals``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turngate.errors import ConfigError
from turngate.report.figure import COLOURS, new_figure, save_figure
from turngate.report.intervals import Interval, SuccessCount, Total, paired_difference, rate_by_question
from turngate.report.tables import print_table
from turngate.trainer.evaluation.overlap import question_of
from turngate.types import JSON, Score, ScoredGroup, Trajectory

SUCCESS, PAID, TURNS, TOKENS = "success", "paid", "turns", "tokens written"
STAGES = ("after", "eval", "before")
"""Stages of evaluations, whose names begin those of their phases, from the one that says most about a run."""
LISTED = 20
"""Most tasks that are listed on a terminal; the JSON file has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRow:
    """One number on both sides: the means over the paired episodes and ``b − a``. None: not measured on that side."""

    name: str
    a: float | None
    b: float | None
    difference: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRuns:
    """The comparison of one phase of A with one of B.

    ``left_out``: episodes of both sides that were unusable, or whose partner was. ``only_a``: tasks of which A solved
    some episode and B none. ``a_rate`` and ``b_rate`` are the success rates with their own intervals.
    """

    a_phase: str
    b_phase: str
    by_seed: bool
    tasks: int
    questions: int
    episodes: tuple[int, int]
    left_out: int
    a_rate: Interval
    b_rate: Interval
    rows: tuple[PairedRow, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def title(self) -> str:
        """The phase, or both where they differ."""
        return self.a_phase if self.a_phase == self.b_phase else f"{self.a_phase} (A) and {self.b_phase} (B)"

    def as_json(self) -> dict[str, JSON]:
        """All of it, with intervals as tables."""
        found: dict[str, JSON] = asdict(self) | {
            "a_rate": self.a_rate._asdict(),
            "b_rate": self.b_rate._asdict(),
            "rows": [
                asdict(row) | {"difference": None if row.difference is None else row.difference._asdict()}
                for row in self.rows
            ],
        }
        return found


Episode = tuple[Trajectory, Score]


def paired(a: Sequence[ScoredGroup], b: Sequence[ScoredGroup], *, phases: tuple[str, str]) -> PairedRuns:
    """Compare the recorded groups of two phases.

    Raises ConfigError for what cannot be paired: tasks that one side alone has, episodes with help, fewer than two
    tasks or questions, and no usable episode of a task on one side.
    """
    sides = [_episodes(groups, side, phase) for groups, side, phase in zip((a, b), "AB", phases, strict=True)]
    _check_tasks(sides)
    by_seed = all({t.seed for t, _ in sides[0][task]} == {t.seed for t, _ in sides[1][task]} for task in sides[0])
    n_before = sum(len(played) for side in sides for played in side.values())
    sides = _usable(sides, by_seed=by_seed)
    tasks = sorted(sides[0])
    questions = question_of([sides[0][task][0][0].task for task in tasks])
    if len(set(questions.values())) < 2:
        raise ConfigError("the runs share fewer than two distinct questions, and an interval needs at least two")

    def totals(side: Mapping[str, Sequence[Episode]], of: Callable[[Episode], float]) -> dict[str, Total]:
        found: defaultdict[str, list[float]] = defaultdict(list)
        for task in tasks:
            found[questions[task]] += [of(episode) for episode in side[task]]
        return {question: Total(sum(values), len(values)) for question, values in found.items()}

    rows = []
    for name, of, known in _numbers(sides):
        a_side, b_side = (totals(side, of) if known[at] else None for at, side in enumerate(sides))
        difference = paired_difference(a_side, b_side) if a_side is not None and b_side is not None else None
        rows.append(PairedRow(name=name, a=_mean(a_side), b=_mean(b_side), difference=difference))
    won = [{task for task in tasks if any(score.success for _, score in side[task])} for side in sides]
    rates = [
        rate_by_question({q: SuccessCount(round(t.total), t.n) for q, t in totals(side, _success).items()})
        for side in sides
    ]
    counts = [sum(map(len, side.values())) for side in sides]
    return PairedRuns(
        a_phase=phases[0],
        b_phase=phases[1],
        by_seed=by_seed,
        tasks=len(tasks),
        questions=len(set(questions.values())),
        episodes=(counts[0], counts[1]),
        left_out=n_before - sum(counts),
        a_rate=rates[0],
        b_rate=rates[1],
        rows=tuple(rows),
        only_a=tuple(sorted(won[0] - won[1])),
        only_b=tuple(sorted(won[1] - won[0])),
    )


def _episodes(groups: Sequence[ScoredGroup], side: str, phase: str) -> dict[str, list[Episode]]:
    found: defaultdict[str, list[Episode]] = defaultdict(list)
    for group in groups:
        found[group.task.id] += zip(group.trajectories, group.scores, strict=True)
    helped = sum(t.guidance is not None for played in found.values() for t, _ in played)
    if helped:
        raise ConfigError(
            f"{helped} episodes of {side} ('{phase}') had help, which the other side need not have had; compare "
            "evaluations, which have none"
        )
    return dict(found)


def _check_tasks(sides: Sequence[Mapping[str, object]]) -> None:
    for one, other, name, rest in ((*sides, "A", "B"), (*reversed(sides), "B", "A")):
        if alone := sorted(set(one) - set(other)):
            raise ConfigError(
                f"{len(alone)} of {len(one)} tasks of {name} were not played by {rest}, the first is '{alone[0]}'; "
                "evaluate both on the same tasks: the same environment, split, eval.tasks and seed"
            )


def _usable(sides: Sequence[Mapping[str, Sequence[Episode]]], *, by_seed: bool) -> list[dict[str, list[Episode]]]:
    """The usable episodes; where partners have one seed, those whose partner is usable too."""
    found: list[dict[str, list[Episode]]] = [{}, {}]
    for task in sides[0]:
        kept = [[episode for episode in side[task] if episode[1].usable] for side in sides]
        if by_seed:
            both = set.intersection(*({t.seed for t, _ in played} for played in kept))
            kept = [[(t, score) for t, score in played if t.seed in both] for played in kept]
        if not all(kept):
            raise ConfigError(
                f"task '{task}' has no usable pair of episodes, so it cannot be compared; 'turngate show RUN' lists "
                "why episodes are unusable"
            )
        for side, played in zip(found, kept, strict=True):
            side[task] = played
    return found


def _numbers(
    sides: Sequence[Mapping[str, Sequence[Episode]]],
) -> list[tuple[str, Callable[[Episode], float], tuple[bool, bool]]]:
    """The compared numbers: name, value in an episode, and the sides on which each was measured."""

    def component(name: str) -> Callable[[Episode], float]:
        return lambda episode: sum(event.paid for event in episode[1].ledger if event.name == name)

    every = [[episode for played in side.values() for episode in played] for side in sides]
    ledgers = [{event.name: None for _, score in side for event in score.ledger} for side in every]
    tokens = [all(len(turn.completion.ids_K) for t, _ in side for turn in t.turns) for side in every]
    both = (True, True)
    return [
        (SUCCESS, _success, both),
        (PAID, lambda episode: episode[1].total, both),
        *((f"  {name}", component(name), (name in ledgers[0], name in ledgers[1])) for name in ledgers[0] | ledgers[1]),
        (TURNS, lambda episode: len(episode[0].turns), both),
        (TOKENS, _tokens, (tokens[0], tokens[1])),
    ]


def _success(episode: Episode) -> float:
    return float(bool(episode[1].success))


def _tokens(episode: Episode) -> float:
    return sum(len(turn.completion.ids_K) for turn in episode[0].turns)


def _mean(totals: Mapping[str, Total] | None) -> float | None:
    return None if totals is None else sum(t.total for t in totals.values()) / sum(t.n for t in totals.values())


def last_evaluations(phases: Sequence[str]) -> dict[str, str]:
    """Split and sampling, such as "heldout-greedy" → the phase of its last evaluation, of those that are recorded."""
    found: dict[str, str] = {}
    for stage in STAGES:
        for phase in phases:
            if phase.startswith(f"{stage}-"):
                found.setdefault(phase.removeprefix(f"{stage}-"), phase)
    return found


# --- for people ------------------------------------------------------------------------------------------------------


def paired_cells(found: PairedRuns) -> list[list[str]]:
    """The numbers as cells: first the headings, then a row for each."""
    rows = [
        [row.name, *("–" if side is None else f"{side:.4f}" for side in (row.a, row.b)), *_change(row.difference)]
        for row in found.rows
    ]
    return [["mean per episode", "A", "B", "B − A", "95 %"], *rows]


def paired_lines(found: PairedRuns) -> list[str]:
    """The counts, and the tasks that changed sides."""
    pairing = "task and seed" if found.by_seed else "task (the seeds of the episodes differ)"
    rates = (f"{name} {rate.low:.1%} to {rate.high:.1%}" for name, rate in (("A", found.a_rate), ("B", found.b_rate)))
    return [
        f"{found.tasks} tasks, {found.questions} distinct questions, episodes {found.episodes[0]} (A) and "
        f"{found.episodes[1]} (B), paired by {pairing}; {found.left_out} left out because one of a pair was unusable",
        f"success alone, 95 %: {', '.join(rates)}",
        f"solved by A only: {_listed(found.only_a)}",
        f"solved by B only: {_listed(found.only_b)}",
    ]


def print_paired(console: Console, found: PairedRuns) -> None:
    """A table of the numbers, the counts, and the tasks that changed sides."""
    (first, *heads), *rows = paired_cells(found)
    table = Table(first, box=None, title=found.title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*row)
    print_table(console, table)
    for line in paired_lines(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _change(change: Interval | None) -> tuple[str, str]:
    if change is None:
        return "–", "–"
    if change.low == change.high:  # a bootstrap of equal changes is of width 0, which is not to say that it is sure
        return f"{change.value:+.4f}", "equal in all"
    return f"{change.value:+.4f}", f"{change.low:+.4f} to {change.high:+.4f}"


def _listed(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - LISTED} more" if len(tasks) > LISTED else ""
    return f"{len(tasks)} tasks" + (f" ({', '.join(tasks[:LISTED])}{more})" if tasks else "")


def plot_paired(found: Sequence[PairedRuns], path: Path, *, title: str) -> None:
    """Draw each number of each phase: A, and B with the interval of its difference from A. Raises MissingExtra."""
    rows = [(one, row) for one in found for row in one.rows if row.difference is not None]
    width = max(len(one.rows) for one in found)
    figure = new_figure(2.2 * width, 2.6 * len(found))
    for number, one in enumerate(found):
        shown = [row for which, row in rows if which is one]
        for place, row in enumerate(shown):
            axes = figure.add_subplot(len(found), width, number * width + place + 1)
            assert row.a is not None
            assert row.b is not None
            assert row.difference is not None
            spread = [[row.difference.value - row.difference.low], [row.difference.high - row.difference.value]]
            axes.axhline(row.a, color=COLOURS[0], linewidth=0.8, alpha=0.5)
            axes.plot([0], [row.a], "o", color=COLOURS[0])
            axes.errorbar([1], [row.b], yerr=spread, fmt="o", color=COLOURS[1], capsize=4)
            axes.set_xticks([0, 1], ["A", "B"])
            axes.set_xlim(-0.5, 1.5)
            axes.set_title(row.name.strip(), fontsize=9)
            if not place:
                axes.set_ylabel(one.title, fontsize=8)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
    save_figure(figure, path, title)
