"""What a busy neighbour costs a training step, by how torch's threads wait for each other.

    python -m benchmarks.shared_cores [--steps 4] [--rounds 1] [--neighbours 1] [--spins default cli 0 300 3000]

From one warm-started model, ``turngate train`` runs ``--steps`` steps of ``examples/sql_demo.toml`` on all cores, alone
and beside processes that compute without end. The settings are numbers of ``GOMP_SPINCOUNT`` (rounds for which a
waiting thread spins before it sleeps); "default" is OpenMP's own, "cli" what ``turngate`` sets where nothing is set.
The metrics must be equal bit for bit under all of them.

Prints JSON: median seconds of a step, quiet and busy, and their ratios to OpenMP's own setting in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.short_runs import Timed, conditions, timed, warm_started

OWN = "300000"  # libgomp's own number of rounds where neither it nor a policy is set


@contextmanager
def neighbours(n: int) -> Iterator[None]:
    """``n`` processes that compute without end, for as long as the block lasts."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def environ_of(spins: str, cores: int) -> dict[str, str]:
    """The variables for one setting."""
    threads = {"OMP_NUM_THREADS": str(cores)}
    return threads if spins == "cli" else threads | {"GOMP_SPINCOUNT": OWN if spins == "default" else spins}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=4, help="steps of a run that are timed")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each setting")
    parser.add_argument("--neighbours", type=int, default=1, help="busy processes")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="threads of torch")
    parser.add_argument("--spins", nargs="+", default=["default", "cli", "0", "300", "3000"], help="settings")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of a step, of 8 episodes each")
    parser.add_argument("--episodes", type=int, default=200, help="demonstrations of the warm start")
    parser.add_argument("--epochs", type=int, default=6, help="passes over them")
    chosen = parser.parse_args()
    before, took = conditions(), dict[str, dict[str, list[Timed]]]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = warm_started(folder, episodes=chosen.episodes, epochs=chosen.epochs)
        for number in range(chosen.rounds):
            for spins in chosen.spins:
                for beside, n in (("quiet", 0), ("busy", chosen.neighbours)):
                    with neighbours(n):
                        one = timed(
                            folder, f"{beside}-{spins}-{number}", model, steps=chosen.steps,
                            train={"tasks_per_step": chosen.tasks},
                            environ=environ_of(spins, chosen.cores),
                        )  # fmt: skip
                    took.setdefault(spins, {}).setdefault(beside, []).append(one)
                    print(f"{beside} {spins}: {one.median_s:.2f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    all_runs = [one for sides in took.values() for runs in sides.values() for one in runs]
    found: dict[str, Any] = {
        **before,
        "seconds_per_step": {
            spins: {beside: statistics.median(one.median_s for one in runs) for beside, runs in sides.items()}
            for spins, sides in took.items()
        },
        "episodes_per_step": 8 * chosen.tasks,
        "equal_metrics": all(one.rows == all_runs[0].rows for one in all_runs),
        "load_after": conditions()["load"],
    }
    if "default" in took:
        found["times_faster_than_default"] = {
            spins: {
                beside: statistics.median(
                    a.median_s / b.median_s for a, b in zip(took["default"][beside], runs, strict=True)
                )
                for beside, runs in sides.items()
            }
            for spins, sides in took.items()
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
