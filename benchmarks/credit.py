"""How long every credit rule takes on one core, and whether it grows linearly with the number of turns.

    python benchmarks/credit.py [--turns 50000 100000] [--repeats 15] [--seed 0] [--rules gigpo sag] [--json FILE]

Tables are synthetic and carry every column that some rule reads: cohorts of 8 siblings, 1 to 20 turns each, 60 states,
so that most states are met again by a sibling; a verdict on 7 of 10 turns; every second trajectory branched off its
neighbour, so that rules over trees have trees. Every rule runs with its defaults. Times are processor time of one
thread; of the repeats the best and the median are told. ``exponent`` is log(time ratio) / log(size ratio) between the
smallest and the largest table by their best times, 1.0 is linear. Below about 10,000 turns the fixed cost of numpy
calls hides the growth.

The table is printed as Markdown; ``--json`` writes the same numbers to a file. Exit code 1 if a rule misses its bar.
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from turngate.trainer.credit.rule import CreditRule
from turngate.types import FloatArray, TokenCredit, TurnTable

CREDITS = {  # those that give one number per turn
    name: part.function
    for name, part in CreditRule.catalogue().items()
    if part.function is not None and get_type_hints(part.function)["return"] is not TokenCredit
}
BAR_MS = 100.0  # at 100,000 turns
BARS_MS = {"gigpo": 50.0}
BAR_TURNS = 100_000
LINEAR = 1.5  # largest exponent that still counts as linear (quadratic is 2): a larger table leaves the caches
SIBLINGS = 8


def synthetic(n_turns: int, seed: int = 0) -> TurnTable:
    """A table of ``n_turns`` turns, or a few more: trajectories stay whole."""
    rng = np.random.default_rng(seed)
    lengths_B = rng.integers(1, 21, size=n_turns)
    lengths_B = lengths_B[: int(np.searchsorted(np.cumsum(lengths_B), n_turns)) + 1]
    n, b = int(lengths_B.sum()), len(lengths_B)
    ends_B = np.cumsum(lengths_B)
    first_N = np.repeat(ends_B - lengths_B, lengths_B)
    outcome_B = rng.integers(0, 2, size=b).astype(np.float32)
    reward_N = 0.02 * rng.random(n)  # something per turn and the outcome at the end, together at most 1
    reward_N[ends_B - 1] += 0.6 * outcome_B
    return TurnTable(
        reward_N=reward_N.astype(np.float32),
        process_N=np.where(rng.random(n) < 0.7, rng.random(n), np.nan).astype(np.float32),
        open_N=rng.random(n) < 0.9,
        traj_N=np.repeat(np.arange(b), lengths_B).astype(np.int32),
        index_N=(np.arange(n) - first_N).astype(np.int32),
        state_N=rng.integers(0, 60, size=n),
        outcome_B=outcome_B,
        cohort_B=(np.arange(b) // SIBLINGS).astype(np.int32),
        measured=_measured(rng, lengths_B),
    )


def _measured(rng: np.random.Generator, lengths_B: np.ndarray) -> dict[str, np.ndarray]:
    """Every column that a rule may ask for."""
    n, b = int(lengths_B.sum()), len(lengths_B)
    branched_B = np.arange(b) % 2 == 1
    shared_B = rng.integers(0, 1 + np.minimum(lengths_B, np.roll(lengths_B, 1)))
    return {
        "tokens_N": rng.integers(1, 200, size=n).astype(np.int32),
        "surprisal_N": rng.exponential(size=n).astype(np.float32),
        "parent_B": np.where(branched_B, np.arange(b) - 1, -1).astype(np.int32),
        "branch_B": np.where(branched_B, shared_B, 0).astype(np.int32),
        "settled_B": rng.integers(0, 2, size=b).astype(np.float32),
        "value_N": rng.normal(size=n).astype(np.float32),
        "gain_N": rng.normal(size=n).astype(np.float32),
        "logratio_N": rng.normal(size=n).astype(np.float32),
        "similar_N": rng.integers(0, 60, size=n),
        "grounded_N": rng.integers(0, 2, size=n).astype(np.float32),
        "format_N": rng.integers(0, 2, size=n).astype(np.float32),
        "act_N": rng.integers(0, 4, size=n),
        "said_N": rng.integers(0, 4, size=n),
        "tag_N": rng.integers(0, 6, size=n),
        "accuracy_N": rng.random(n).astype(np.float32),
        "confidence_N": rng.random(n).astype(np.float32),
        "paid/won_B": rng.random(b).astype(np.float32),
        "paid/style_B": rng.random(b).astype(np.float32),
    }


def times_ms(
    credit: Callable[[TurnTable], FloatArray], tables: Sequence[TurnTable], repeats: int
) -> dict[int, list[float]]:
    """Milliseconds of each repeat by number of turns, after one that is not counted.

    Processor time of this thread: what it would take by the clock if nobody else wanted the core. Sizes take turns, so
    that whatever else the machine does to the caches meets all of them.
    """
    found: dict[int, list[float]] = {table.n_turns: [] for table in tables}
    for repeat in range(repeats + 1):
        for table in tables:
            start_s = time.thread_time()
            credit(table)
            if repeat:
                found[table.n_turns].append((time.thread_time() - start_s) * 1e3)
    return found


def measure(names: Sequence[str], tables: Sequence[TurnTable], repeats: int) -> dict[str, dict[str, Any]]:
    """Per rule: best and median by number of turns, the exponent, and the bar if the largest table has its size."""
    found = {}
    for name in names:
        runs = times_ms(CREDITS[name], tables, repeats)
        best = {n: min(run) for n, run in runs.items()}
        small, large = min(runs), max(runs)
        exponent = math.log(best[large] / best[small]) / math.log(large / small) if small < large else math.nan
        barred = abs(large - BAR_TURNS) < 100
        found[name] = {
            "best_ms": best,
            "median_ms": {n: float(np.median(run)) for n, run in runs.items()},
            "exponent": exponent,
            "bar_ms": BARS_MS.get(name, BAR_MS) if barred else None,
        }
    return found


def missed(row: dict[str, Any]) -> str:
    """What a rule missed, or nothing."""
    slow = row["bar_ms"] is not None and max(row["best_ms"].values()) > row["bar_ms"]
    bent = row["exponent"] > LINEAR  # False for NaN: there was one size only
    return " and ".join(what for what, is_so in (("too slow", slow), ("not linear", bent)) if is_so)


def markdown(found: dict[str, dict[str, Any]]) -> str:
    """The table, slowest rule first."""
    sizes = sorted(next(iter(found.values()))["best_ms"])
    cells = ["rule", *[f"{n:,} turns: best / median" for n in sizes], "exponent", "bar", ""]
    lines = [f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}"]
    for name, row in sorted(found.items(), key=lambda item: -item[1]["best_ms"][sizes[-1]]):
        times = [f"{row['best_ms'][n]:.1f} / {row['median_ms'][n]:.1f} ms" for n in sizes]
        bar = "" if row["bar_ms"] is None else f"{row['bar_ms']:.0f} ms"
        cells = [name, *times, f"{row['exponent']:.2f}", bar, missed(row)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def machine() -> str:
    return f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[50_000, BAR_TURNS])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rules", nargs="+", choices=CREDITS, default=list(CREDITS), metavar="RULE")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core
    tables = [synthetic(n, arguments.seed) for n in sorted(arguments.turns)]
    found = measure(arguments.rules, tables, arguments.repeats)
    print(f"{machine()}; one core, {arguments.repeats} repeats, seed {arguments.seed}\n")
    print(markdown(found))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "rules": found}, indent=1) + "\n")
    return int(any(missed(row) for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
