"""Tables of success rates before and after training with confidence intervals, for a terminal or as Markdown.

A rate of 100 episodes says little without its uncertainty, so every rate has a 95 % interval, by Wilson's method. The
interval of a difference is a bootstrap over distinct questions if both sides were asked the same, else Newcombe's.
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

OF_ALL = "of all, %"
"""Heading of the rates that count unusable episodes as failures; the column is left out where there are none."""
HEADINGS = (
    "split",
    "help",
    "temperature",
    "before, % [95 %]",
    "n",
    OF_ALL,
    "after, % [95 %]",
    "n",
    OF_ALL,
    "difference, points [95 %]",
)


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
    """The result of one evaluation: ``successes`` of ``n`` usable episodes.

    ``by_question`` has the same numbers per question, or is empty if they are not known. Raises ShapeError if they do
    not add up.
    """

    split: str
    temperature: float
    successes: int
    n: int
    guided: bool = False
    unusable: int = 0
    by_question: Mapping[str, SuccessCount] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check(self.successes, self.n)
        total = (sum(t.successes for t in self.by_question.values()), sum(t.n for t in self.by_question.values()))
        if self.by_question and total != (self.successes, self.n):
            raise ShapeError(f"by_question adds up to {total[0]} of {total[1]}, not to {self.successes} of {self.n}")

    @property
    def key(self) -> tuple[str, bool, float]:
        """(split, guided, temperature): two evaluations can be compared if these are equal."""
        return self.split, self.guided, self.temperature


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


def comparison_table(before: Sequence[Success], after: Sequence[Success]) -> Table:
    """Before and after side by side, matched by split, help and temperature; a dash where one side is missing.

    Where any episode was unusable, each side has a further rate, of all episodes, with the unusable ones as failures.
    Raises ShapeError when one side has two entries for the same row.
    """
    table = Table(caption=_note([*before, *after]), caption_justify="left")
    headings, *rows = _cells(before, after)
    for number, heading in enumerate(headings):
        table.add_column(Text(heading), justify="left" if number < 2 else "right")
    for cells in rows:
        table.add_row(*map(Text, cells))
    return table


def comparison_markdown(before: Sequence[Success], after: Sequence[Success]) -> str:
    """The same table in Markdown, which also reads well as plain text."""
    rows = _cells(before, after)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:], "", _note([*before, *after])]) + "\n"


def _cells(before: Sequence[Success], after: Sequence[Success]) -> list[list[str]]:
    """The headings, then the rows."""
    rows = [list(HEADINGS), *_rows(before, after)]
    if any(success.unusable for success in (*before, *after)):
        return rows
    return [[cell for number, cell in enumerate(row) if HEADINGS[number] != OF_ALL] for row in rows]


def _rows(before: Iterable[Success], after: Iterable[Success]) -> list[list[str]]:
    old, new = _index(before), _index(after)
    return [
        [
            split,
            "guided" if guided else "none",
            f"{temperature:g}" if temperature else "0 (greedy)",
            *_rate(old.get(key)),
            *_rate(new.get(key)),
            _change(old.get(key), new.get(key)),
        ]
        for key in dict.fromkeys([*new, *old])
        for split, guided, temperature in [key]
    ]


def _index(successes: Iterable[Success]) -> dict[tuple[str, bool, float], Success]:
    found: dict[tuple[str, bool, float], Success] = {}
    for success in successes:
        if success.key in found:
            raise ShapeError(
                f"two results for split '{success.split}' at temperature {success.temperature:g}; give one"
            )
        found[success.key] = success
    return found


def _rate(success: Success | None) -> tuple[str, str, str]:
    if success is None or not success.n + success.unusable:
        return "–", "–", "–"
    of_all = f"{100 * success.successes / (success.n + success.unusable):.1f}"
    if not success.n:
        return "–", "0", of_all
    low, high = wilson(success.successes, success.n)
    return f"{100 * success.successes / success.n:.1f} [{100 * low:.1f}, {100 * high:.1f}]", str(success.n), of_all


def _change(before: Success | None, after: Success | None) -> str:
    if before is None or after is None or not before.n or not after.n:
        return "–"
    if len(before.by_question) > 1 and set(before.by_question) == set(after.by_question):
        value, low, high = paired_difference(before.by_question, after.by_question)
    else:
        value, low, high = newcombe(SuccessCount(before.successes, before.n), SuccessCount(after.successes, after.n))
    return f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _note(successes: Iterable[Success]) -> str:
    unusable = sum(success.unusable for success in successes)
    left_out = (
        f" {unusable} unusable episodes are left out, but '{OF_ALL}' counts them as failures." if unusable else ""
    )
    return (
        "Intervals: Wilson for a rate; for a difference a bootstrap over distinct questions where both sides were "
        f"asked the same, else Newcombe.{left_out}"
    )
