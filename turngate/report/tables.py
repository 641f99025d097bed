"""Tables of success rates, before and after training or in any other phases, for a terminal or as Markdown.

A rate of 100 episodes says little without its uncertainty, so every rate has a 95 % interval, by Wilson's method. The
interval of a difference is a bootstrap over distinct questions if both sides were asked the same, else Newcombe's.
Beside each rate stand the numbers of tasks, of distinct questions, of episodes and of unusable episodes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from turngate.errors import ShapeError

SOLVED = "solved, % [95 %]"
OF_ALL = "of all, %"
"""Heading of the rates that count unusable episodes as failures; the column is left out where there are none."""


class Interval(NamedTuple):
    """An estimate between its bounds."""

    value: float
    low: float
    high: float


class SuccessCount(NamedTuple):
    """``successes`` of ``n`` episodes."""

    successes: int
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The result of one evaluation without hints: ``successes`` of ``n`` usable episodes.

    ``tasks`` and ``questions`` are how many distinct ones were asked, those of unusable episodes included; None where
    that is not known. ``by_question`` has successes and usable episodes per question, or is empty if they are not
    known. Raises ShapeError if they do not add up.
    """

    split: str
    temperature: float
    successes: int
    n: int
    unusable: int = 0
    tasks: int | None = None
    questions: int | None = None
    by_question: Mapping[str, SuccessCount] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check(self.successes, self.n)
        total = (sum(t.successes for t in self.by_question.values()), sum(t.n for t in self.by_question.values()))
        if self.by_question and total != (self.successes, self.n):
            raise ShapeError(f"by_question adds up to {total[0]} of {total[1]}, not to {self.successes} of {self.n}")

    @property
    def key(self) -> tuple[str, float]:
        """(split, temperature): two evaluations can be compared if these are equal."""
        return self.split, self.temperature

    @property
    def episodes(self) -> int:
        """Number of all episodes, the unusable ones included."""
        return self.n + self.unusable


Phases = Mapping[str, Sequence[Success]]
"""The evaluations of each phase of a run, such as "before" and "after", by the name of the phase and in order."""


def by_question(question_B: Sequence[str], success_B: Sequence[bool]) -> dict[str, SuccessCount]:
    """Count successes and episodes per question; the arguments have one entry per episode. Raises ShapeError."""
    if len(question_B) != len(success_B):
        raise ShapeError(f"{len(question_B)} questions but {len(success_B)} successes")
    successes = Counter(question for question, success in zip(question_B, success_B, strict=True) if success)
    return {question: SuccessCount(successes[question], n) for question, n in Counter(question_B).items()}


# --- intervals -------------------------------------------------------------------------------------------------------


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The confidence interval of a rate: every p with ``|successes/n - p| <= z·sqrt(p(1-p)/n)`` (Wilson 1927).

    Unlike the textbook interval it stays in [0, 1] and is not of width 0 at 0 or n successes. ``n = 0`` gives (0, 1).
    Raises ShapeError unless ``0 <= successes <= n``.
    """
    _check(successes, n)
    if n == 0:
        return 0.0, 1.0
    share, spread = successes / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    # At the ends the formula is exact and its rounding is not.
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def newcombe(before: SuccessCount, after: SuccessCount, z: float = 1.96) -> Interval:
    """The difference ``after - before`` of two independent rates, with its interval (Newcombe 1998, method 10).

    Raises ShapeError if one side has no episodes.
    """
    if not before.n or not after.n:
        raise ShapeError(f"a difference needs episodes on both sides; there are {before.n} and {after.n}")
    p, q = before.successes / before.n, after.successes / after.n
    (p_low, p_high), (q_low, q_high) = wilson(*before, z), wilson(*after, z)
    low, high = sqrt((q - q_low) ** 2 + (p_high - p) ** 2), sqrt((q_high - q) ** 2 + (p - p_low) ** 2)
    return Interval(q - p, q - p - low, q - p + high)


def paired_difference(
    before: Mapping[str, SuccessCount],
    after: Mapping[str, SuccessCount],
    *,
    seed: int = 0,
    resamples: int = 4000,
    level: float = 0.95,
) -> Interval:
    """The difference ``after - before`` of two rates on the same tasks, with a percentile bootstrap that draws tasks.

    Episodes of one task are alike, so drawing episodes instead would give too narrow an interval. Each task is compared
    with itself, so that differences between easy and hard tasks do not widen it. If every task changed by the same
    amount (all are solved, or none is), the interval has width 0; that means that there are too few tasks to tell. The
    same seed gives the same interval. Raises ShapeError for different tasks on the two sides, for fewer than two tasks
    and for a task without episodes.
    """
    if set(before) != set(after):
        alone = sorted(set(before) ^ set(after))
        raise ShapeError(f"'{alone[0]}' and {len(alone) - 1} other tasks were played on one side only; give the same")
    if len(before) < 2:
        raise ShapeError(f"a bootstrap over tasks needs at least 2 tasks; there are {len(before)}")
    if empty := [task for task in before if not before[task].n or not after[task].n]:
        raise ShapeError(f"task '{empty[0]}' has no episodes on one side; leave it out")
    counts = np.array([(*before[task], *after[task]) for task in sorted(before)], np.float64)
    draws = np.random.default_rng(seed).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=resamples)
    tail = (1 - level) / 2
    low, high = np.quantile(_difference(draws @ counts), (tail, 1 - tail))
    return Interval(float(_difference(counts.sum(axis=0))), float(low), float(high))


def _difference(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Difference of the rates, from an array whose last axis is (successes before, n before, the two after)."""
    return np.asarray(counts[..., 2] / counts[..., 3] - counts[..., 0] / counts[..., 1])


def _check(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ShapeError(f"{successes} successes of {n} episodes; need 0 <= successes <= n")


# --- the table -------------------------------------------------------------------------------------------------------


def print_table(console: Console, table: Table) -> None:
    """Print a table without cutting off cells: on a terminal they are folded; elsewhere lines are as long as needed."""
    for column in table.columns:
        column.overflow = "fold"
    width = console.width
    if not console.is_terminal:
        console.width = max(width, Measurement.get(console, console.options.update(width=sys.maxsize), table).maximum)
    console.print(table, markup=False, highlight=False)
    console.width = width


def print_comparison(console: Console, phases: Phases) -> None:
    """Print a table for each split, which fits into 80 columns if the names of the phases have at most 16 characters.

    There is a row for each temperature and phase, and one for the difference from the first phase. Where an episode of
    the split was unusable, a further column has the rate of all episodes. Raises ShapeError when a phase has two
    results for the same split and temperature.
    """
    rows = _rows(phases)
    for split in dict.fromkeys(row.success.split for row in rows):
        console.print(f"split '{split}'", markup=False, highlight=False)
        print_table(console, _split_table([row for row in rows if row.success.split == split]))


def comparison_markdown(phases: Phases) -> str:
    """All splits in one table, one line for each evaluation, in Markdown, which also reads well as plain text.

    Raises ShapeError when a phase has two results for the same split and temperature.
    """
    rows = _rows(phases)
    counts = ("tasks", "questions", "episodes", "unusable")
    headings = ["split", "temperature", "phase", *counts, SOLVED, OF_ALL, f"minus {next(iter(phases), '')}, points"]
    lines = [headings, *map(_markdown_cells, rows)]
    idle = {
        *([] if any(row.success.unusable for row in rows) else [headings.index(OF_ALL)]),
        *([] if any(row.difference for row in rows) else [len(headings) - 1]),
    }
    columns = [column for number, column in enumerate(zip(*lines, strict=True)) if number not in idle]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    first, *rest = ["| " + " | ".join(cells) + " |" for cells in zip(*padded, strict=True)]
    rule = "|" + "|".join("-" * (len(column[0]) + 2) for column in padded) + "|"
    return "\n".join([first, rule, *rest]) + "\n"


def _markdown_cells(row: _Row) -> list[str]:
    result = row.success
    counts = (_count(result.tasks), _count(result.questions), str(result.episodes), str(result.unusable))
    return [result.split, _temperature(result), row.phase, *counts, *_rates(result), row.difference or "–"]


def note(successes: Iterable[Success]) -> str:
    """What has to be known to read tables with these results."""
    unusable = sum(success.unusable for success in successes)
    left_out = f" {unusable} unusable episodes are left out of 'solved'; '{OF_ALL}' counts them as failures."
    return (
        "No evaluated episode got help. Intervals: Wilson for a rate; for a difference a bootstrap over distinct "
        f"questions where both sides were asked the same, else Newcombe.{left_out if unusable else ''}"
    )


class _Row(NamedTuple):
    """A result and, as text, how it differs from that of the first phase; "" where there is nothing to compare."""

    phase: str
    success: Success
    difference: str


def _rows(phases: Phases) -> list[_Row]:
    """Every result, by split, temperature and phase."""
    found = {phase: _index(results) for phase, results in phases.items()}
    base = next(iter(found.values()), {})
    keys = list(dict.fromkeys(key for results in found.values() for key in results))
    return [
        _Row(phase, results[key], _change(base.get(key), results[key]) if results is not base else "")
        for split in dict.fromkeys(split for split, _ in keys)
        for key in keys
        if key[0] == split
        for phase, results in found.items()
        if key in results
    ]


def _split_table(rows: Sequence[_Row]) -> Table:
    """The results on one split, for a terminal: a difference is a row of its own, below the phase that it is of."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    some_unusable = any(row.success.unusable for row in rows)
    headings = ["temp.", "phase", "tasks\n(questions)", "episodes\n(unusable)", SOLVED]
    for heading in [*headings, OF_ALL] if some_unusable else headings:
        table.add_column(Text(heading), justify="left" if heading == "phase" else "right", vertical="bottom")
    told = ""
    for phase, result, difference in rows:
        solved, of_all = _rates(result)
        temperature = _temperature(result)
        asked, played = f"{_count(result.tasks)} ({_count(result.questions)})", f"{result.episodes} ({result.unusable})"
        cells = ["" if temperature == told else temperature, phase, asked, played, solved]
        table.add_row(*map(Text, [*cells, of_all] if some_unusable else cells))
        if difference:
            table.add_row("", "difference", "", "", difference)
        told = temperature
    return table


def _index(successes: Iterable[Success]) -> dict[tuple[str, float], Success]:
    found: dict[tuple[str, float], Success] = {}
    for success in successes:
        if success.key in found:
            raise ShapeError(
                f"two results for split '{success.split}' at temperature {success.temperature:g}; give one"
            )
        found[success.key] = success
    return found


def _temperature(success: Success) -> str:
    return f"{success.temperature:g}" if success.temperature else "greedy"


def _count(number: int | None) -> str:
    return "–" if number is None else str(number)


def _rates(success: Success) -> tuple[str, str]:
    """The rate of the usable episodes with its interval, and the rate of all episodes, as text."""
    of_all = f"{100 * success.successes / success.episodes:.1f}" if success.episodes else "–"
    if not success.n:
        return "–", of_all
    low, high = wilson(success.successes, success.n)
    return f"{100 * success.successes / success.n:.1f} [{100 * low:.1f}, {100 * high:.1f}]", of_all


def _change(before: Success | None, after: Success) -> str:
    if before is None or not before.n or not after.n:
        return ""
    if len(before.by_question) > 1 and set(before.by_question) == set(after.by_question):
        value, low, high = paired_difference(before.by_question, after.by_question)
    else:
        value, low, high = newcombe(SuccessCount(before.successes, before.n), SuccessCount(after.successes, after.n))
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
