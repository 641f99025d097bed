"""How long credit takes, and whether it grows linearly with the number of turns.

    python benchmarks/credit.py [--turns 10000 100000] [--repeats 5]

Tables are synthetic: cohorts of 8 siblings, 1 to 20 turns each, 60 states, so that most states are met again by a
sibling. Printed is the best of the repeats, and the exponent log(time ratio) / log(size ratio) between the smallest and
the largest table; 1.0 is linear. Below about 10,000 turns the fixed cost of numpy calls hides the growth.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from turngate.trainer.credit import CREDITS
from turngate.types import FloatArray, TurnTable


def synthetic(n_turns: int, seed: int = 0) -> TurnTable:
    """A table of ``n_turns`` turns, or a few more: trajectories stay whole."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 21, size=n_turns)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), n_turns)) + 1]
    n = int(lengths.sum())
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    cohort_B = np.arange(len(lengths)) // 8
    traj_N = np.repeat(np.arange(len(lengths)), lengths)
    return TurnTable(
        reward_N=rng.normal(size=n).astype(np.float32),
        process_N=np.full(n, np.nan, np.float32),
        open_N=np.ones(n, np.bool_),
        traj_N=traj_N.astype(np.int32),
        index_N=(np.arange(n) - first).astype(np.int32),
        state_N=rng.integers(0, 60, size=n),
        outcome_B=rng.integers(0, 2, size=len(lengths)).astype(np.float32),
        cohort_B=cohort_B.astype(np.int32),
    )


def best_time(credit: Callable[[TurnTable], FloatArray], table: TurnTable, repeats: int) -> float:
    """Seconds of the fastest repeat."""
    times_s = []
    for _ in range(repeats):
        start_s = time.perf_counter()
        credit(table)
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    tables = [synthetic(n) for n in sorted(arguments.turns)]
    print("credit    " + "".join(f"{f'{table.n_turns} turns':>18}" for table in tables) + f"{'exponent':>12}")
    for name, credit in CREDITS.items():
        times_s = [best_time(credit, table, arguments.repeats) for table in tables]
        size = math.log(tables[-1].n_turns / tables[0].n_turns) if len(tables) > 1 else math.nan
        exponent = math.log(times_s[-1] / times_s[0]) / size
        print(f"{name:<10}" + "".join(f"{f'{t * 1e3:.2f} ms':>18}" for t in times_s) + f"{exponent:>12.2f}")


if __name__ == "__main__":
    main()
