"""Supervised baselines in a report: how many demonstrations reinforcement learning is worth.

Learning from rewards is only worth its price where more demonstrations would not have done the same. So the table sets
the run beside models that imitated more demonstrations and saw no reward, all evaluated on the same tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.config.run_config import load_run
from turngate.errors import ShapeError
from turngate.report.intervals import by_question, rate_by_question
from turngate.report.tables import print_table
from turngate.store.folder import RunFolder
from turngate.trainer.evaluation.evaluate import Evaluation
from turngate.trainer.evaluation.evaluations_file import read_evaluations
from turngate.trainer.evaluation.validation_passes import read_passes

HEADINGS = ("temp.", "learned by", "demonstrations", "episodes (unusable)", "solved, % [95 %]")
SUPERVISED, REINFORCED = "supervised learning", "reinforcement learning"
CUT_OFF = "was cut off before it stopped improving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The evaluations of one split at one temperature.

    ``supervised`` has pairs of (demonstrations, evaluation) with ascending numbers; the first is the run's own warm
    start. ``reinforced`` is the evaluation after reinforcement learning; None if there is none. ``cut_off``: the
    numbers of demonstrations whose warm start was ended before validation stopped improving, or had no validation.
    """

    split: str
    temperature: float
    supervised: tuple[tuple[int, Evaluation], ...]
    reinforced: Evaluation | None
    cut_off: frozenset[int] = frozenset()

    @property
    def line(self) -> str:
        """How many demonstrations reinforcement learning is worth here, in words; "" where that is not known."""
        rates = [(n, one.rate) for n, one in self.supervised]
        if self.reinforced is None or len(rates) < 2 or not all(math.isfinite(rate) for _, rate in rates):
            return ""
        own = rates[0][0]
        if not math.isfinite(self.reinforced.rate):
            return ""
        if self.cut_off:
            return (
                f"{self.split}, {_temperature(self.temperature)}: not compared with supervised learning, because the "
                f"supervised model of {', '.join(map(str, sorted(self.cut_off)))} demonstrations {CUT_OFF}: raise "
                "warm_start.epochs, or set [warm_start.validation]"
            )
        return (
            f"{self.split}, {_temperature(self.temperature)}: reinforcement learning from {own} demonstrations reaches "
            f"what supervised learning reaches with {times_as_many(self.reinforced.rate, rates)}"
        )


def tell_baselines(run: RunFolder, console: Console) -> list[str]:
    """Print a table for each split and what follows from it; returns the same as sections of ``summary.md``.

    There are none for a run without baselines.
    """
    compared = _compared(run)
    if not compared:
        return []
    console.print("\nsupervised baselines", highlight=False)
    for split in dict.fromkeys(one.split for one in compared):
        console.print(f"split '{split}'", markup=False, highlight=False)
        print_table(console, _table([one for one in compared if one.split == split]))
    lines = [one.line for one in compared if one.line]
    for line in lines:
        console.print(line, markup=False, highlight=False)
    return [f"## supervised baselines\n\n{_markdown(compared)}\n" + "".join(f"* {line}\n" for line in lines)]


# --- how many demonstrations -----------------------------------------------------------------------------------------


def times_as_many(rate: float, supervised: Sequence[tuple[int, float]]) -> str:
    """How many times as many demonstrations as the smallest number supervised learning needs to reach ``rate``.

    ``supervised`` are pairs of (demonstrations, success rate), the numbers ascending. Only these were measured, so the
    answer names the two between which the rate is first reached, and nothing is interpolated. Where the curve falls and
    rises again the first crossing counts, which is the one that says least for reinforcement learning. Raises
    ShapeError for no pairs and for numbers that do not ascend.
    """
    numbers = [n for n, _ in supervised]
    if not numbers or any(b <= a for a, b in pairwise(numbers)):
        raise ShapeError(f"the numbers of demonstrations must ascend and there must be one; found {numbers}")
    least, first_rate = supervised[0]
    if rate <= first_rate:
        return "no more demonstrations"
    for (n, _), (more, high) in pairwise(supervised):
        if high >= rate:
            low = "" if n == least else f"more than {_short(n / least)} and "
            return f"{low}at most {_short(more / least)} times as many"
    return f"more than {_short(numbers[-1] / least)} times as many"


def _short(number: float) -> str:
    return f"{round(number, 1):g}" if number < 10 else f"{number:.0f}"


# --- reading and showing ---------------------------------------------------------------------------------------------


def _compared(run: RunFolder) -> list[Compared]:
    """Every split and temperature of the run's own evaluation of which a baseline has an evaluation too."""
    config = load_run(run)
    if config.baselines is None or config.warm_start is None or config.warm_start.episodes is None:
        return []
    folders = {config.warm_start.episodes: run} | {int(one.path.name): one for one in run.baselines}
    made = [(n, _phase(one, "before")) for n, one in folders.items()]
    cut_off = frozenset(n for n, one in folders.items() if not _is_converged(one))
    after, found = _phase(run, "after"), []
    for split, temperature in made[0][1]:
        key = (split, temperature)
        supervised = tuple((n, results[key]) for n, results in made if key in results)
        if len(supervised) > 1:
            found.append(
                Compared(
                    split=split,
                    temperature=temperature,
                    supervised=supervised,
                    reinforced=after.get(key),
                    cut_off=cut_off & {n for n, _ in supervised},
                )
            )
    return found


def _is_converged(run: RunFolder) -> bool:
    record = read_passes(run)
    return record is not None and record.converged


def _phase(run: RunFolder, wanted: str) -> dict[tuple[str, float], Evaluation]:
    return {(one.split, one.temperature): one for phase, one in read_evaluations(run.path) if phase == wanted}


def _cells(compared: Compared) -> list[list[str]]:
    rows = [(f"{SUPERVISED}{' (cut off)' * (n in compared.cut_off)}", n, one) for n, one in compared.supervised]
    if compared.reinforced is not None:
        rows.append((REINFORCED, compared.supervised[0][0], compared.reinforced))
    temperature = f"{compared.temperature:g}" if compared.temperature else "greedy"
    return [
        [temperature, name, str(n), f"{len(one.success_B) + one.unusable} ({one.unusable})", _rate(one)]
        for name, n, one in rows
    ]


def _table(compared: Sequence[Compared]) -> Table:
    """The results on one split; it fits into 80 columns."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in HEADINGS:
        shown = heading.replace(" (", "\n(")
        table.add_column(Text(shown), justify="left" if heading == HEADINGS[1] else "right", vertical="bottom")
    for one in compared:
        for cells in _cells(one):
            table.add_row(*map(Text, cells))
    return table


def _markdown(compared: Sequence[Compared]) -> str:
    rows = [["split", *HEADINGS], *([one.split, *cells] for one in compared for cells in _cells(one))]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def _rate(evaluation: Evaluation) -> str:
    n, successes = len(evaluation.success_B), sum(evaluation.success_B)
    if not n:
        return "–"
    _, low, high = rate_by_question(by_question(evaluation.question_B, evaluation.success_B))
    return f"{100 * successes / n:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _temperature(temperature: float) -> str:
    return f"temperature {temperature:g}" if temperature else "greedy"
