"""Tables of success rates, before and after training or in any other phases, for a terminal or as Markdown.

A rate of 100 episodes says little without its uncertainty, so every rate and every difference has a 95 % interval (see
``intervals``), by distinct questions where they are known.
Beside each rate stand the numbers of tasks, of distinct questions, of episodes and of unusable episodes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from turngate.errors import ShapeError
from turngate.report.intervals import (
    SuccessCount,
    check_count,
    newcombe,
    paired_difference,
    rate_by_question,
    wilson,
)

SOLVED = "solved, % [95 %]"
OF_ALL = "of all, %"
"""Heading of the rates that count unusable episodes as failures; the column is left out where there are none."""


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
        check_count(self.successes, self.n)
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
    columns = list(zip(*comparison_cells(phases), strict=True))
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    first, *rest = ["| " + " | ".join(cells) + " |" for cells in zip(*padded, strict=True)]
    rule = "|" + "|".join("-" * (len(column[0]) + 2) for column in padded) + "|"
    return "\n".join([first, rule, *rest]) + "\n"


def comparison_cells(phases: Phases) -> list[list[str]]:
    """The same as cells: first the headings, then a row for each evaluation. Columns that say nothing are left out."""
    rows = _rows(phases)
    counts = ("tasks", "questions", "episodes", "unusable")
    headings = ["split", "temperature", "phase", *counts, SOLVED, OF_ALL, f"minus {next(iter(phases), '')}, points"]
    lines = [headings, *map(_markdown_cells, rows)]
    idle = {
        *([] if any(row.success.unusable for row in rows) else [headings.index(OF_ALL)]),
        *([] if any(row.difference for row in rows) else [len(headings) - 1]),
    }
    return [[cell for number, cell in enumerate(line) if number not in idle] for line in lines]


def _markdown_cells(row: _Row) -> list[str]:
    result = row.success
    counts = (_count(result.tasks), _count(result.questions), str(result.episodes), str(result.unusable))
    return [result.split, _temperature(result), row.phase, *counts, *_rates(result), row.difference or "–"]


def note(successes: Iterable[Success]) -> str:
    """A note on how to read tables with these results."""
    unusable = sum(success.unusable for success in successes)
    left_out = f" {unusable} unusable episodes are left out of 'solved'; '{OF_ALL}' counts them as failures."
    return (
        "No evaluated episode got help. Intervals: Wilson for a rate, at the effective number of episodes where "
        "several ask one question; for a difference a bootstrap over distinct questions where both sides were asked "
        f"the same, else Newcombe.{left_out if unusable else ''}"
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
    if success.by_question:
        _, low, high = rate_by_question(success.by_question)
    else:
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
