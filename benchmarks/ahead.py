"""Rollouts one step ahead of the learner against step after step: wall time per training step of the demo.

    python -m benchmarks.ahead [--steps 8] [--rounds 3] [--episodes 200] [--epochs 6]

From one warm-started model, ``turngate train`` runs ``--steps`` steps of ``examples/sql_demo.toml`` (128 episodes each)
with ``train.ahead`` 0 and 1, in turn. Both are configured at their best for ``--cores`` cores: in turn, torch may use
one thread or all cores, whichever is faster here; ahead, each half has half of the cores. The ratio compares the
faster of the first two with the last, in each round. The limit is (play + learn) / max(play, learn) where neither half
is faster on all cores than on half of them; "halves_s" are the two in turn.

Prints JSON, with the load of the machine before and after: on cores that others use, the ratio says little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.short_runs import Timed, conditions, timed, warm_started
from turngate.store.metrics import read_metrics


def ways(cores: int) -> dict[str, tuple[int, int]]:
    """The ways of training, by name: ``train.ahead`` and the number of threads."""
    half = max(1, cores // 2)
    return {"in turn, half": (0, half), "in turn, all": (0, cores), "ahead": (1, half)}


def rounds_of(folder: Path, model: Path, *, steps: int, rounds: int, cores: int, tasks: int) -> dict[str, list[Timed]]:
    """Each way, in turn, so many times."""
    took: dict[str, list[Timed]] = {name: [] for name in ways(cores)}
    for number in range(rounds):
        for name, (ahead, threads) in ways(cores).items():
            run = f"{name.replace(', ', '-').replace(' ', '-')}-{number}"
            environ = {"OMP_NUM_THREADS": str(threads)}
            took[name].append(
                timed(folder, run, model, steps=steps, train={"ahead": ahead, "tasks_per_step": tasks}, environ=environ)
            )
    return took


def halves(folder: Path) -> dict[str, float]:
    """Mean seconds of playing and of learning in a step, of the first run that played in turn on half of the cores."""
    rows = read_metrics(folder / "in-turn-half-0" / "metrics.jsonl")[1:]
    play, learn = ("time/collect_s", "time/reward_s"), ("time/credit_s", "time/learn_s")
    return {
        name: statistics.fmean(sum(row.get(key, 0.0) for key in keys) for row in rows)
        for name, keys in (("play", play), ("learn", learn))
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8, help="steps of a run that are timed")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each way")
    parser.add_argument("--cores", type=int, default=2, help="cores that the machine has for this")
    parser.add_argument("--tasks", type=int, default=16, help="tasks of a step, of 8 episodes each")
    parser.add_argument("--episodes", type=int, default=200, help="demonstrations of the warm start")
    parser.add_argument("--epochs", type=int, default=6, help="passes over them")
    chosen = parser.parse_args()
    before = conditions()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = warm_started(folder, episodes=chosen.episodes, epochs=chosen.epochs)
        took = rounds_of(
            folder, model, steps=chosen.steps, rounds=chosen.rounds, cores=chosen.cores, tasks=chosen.tasks
        )
        halves_s = halves(folder)
    if not halves_s["learn"]:
        raise SystemExit("nothing was learned, so there was nothing to play beside: raise --episodes and --epochs")
    half, whole, ahead = took.values()
    ratios = [min(a.mean_s, b.mean_s) / c.mean_s for a, b, c in zip(half, whole, ahead, strict=True)]
    found: dict[str, Any] = {
        **before,
        "seconds_per_step": {name: [round(one.mean_s, 3) for one in runs] for name, runs in took.items()},
        "halves_s": halves_s,
        "limit": sum(halves_s.values()) / max(halves_s.values()),
        "episodes_per_step": 8 * chosen.tasks,
        "ratios": ratios,
        "ratio": statistics.median(ratios),
        "ages": sorted({row["policy/age"] for one in ahead for row in one.rows}),
        "repeats": all(one.rows == ahead[0].rows for one in ahead),
        "load_after": conditions()["load"],
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
