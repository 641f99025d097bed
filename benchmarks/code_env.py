"""How fast episodes of code repair are played: oracle episodes of generated problems, agent's sandbox, hidden tests and
control runs included.

    python benchmarks/code_env.py [--episodes 200] [--threads 8]

"new" problems are measured anew, "known" ones have been solved the same way before, as by siblings of a group. The
limit of the machine is given beside: bare starts of Python on all cores, of which a new episode needs four, for the
agent's own run of the tests, for the hidden tests, and for their two control runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from turngate.envs.code.env import CodeRepairEnv
from turngate.envs.code.sources import GeneratedCode
from turngate.types import Task

STARTS = 4
"""How often a new episode starts Python."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--threads", type=int, default=8)
    arguments = parser.parse_args()
    source = GeneratedCode().open()
    tasks = [source.task("train", index) for index in range(arguments.episodes)]
    envs = [CodeRepairEnv(tasks=source, measure="end") for _ in range(arguments.threads)]
    try:
        for name in ("new", "known"):
            seconds, turns = play(envs, tasks)
            print(f"{name:>6}: {len(tasks) / seconds:7.1f} episodes/s, {turns / seconds:7.1f} turns/s")
    finally:
        for env in envs:
            env.close()
    starts = bare_starts(arguments.episodes)
    print(f" limit: {starts:7.1f} bare starts of Python a second, so {starts / STARTS:.1f} new episodes/s at most")


def play(envs: Sequence[CodeRepairEnv], tasks: Sequence[Task]) -> tuple[float, int]:
    """Seconds for all tasks, and turns in all."""
    start_s = time.perf_counter()
    with ThreadPoolExecutor(len(envs)) as pool:
        shares = [tasks[place :: len(envs)] for place in range(len(envs))]
        turns = sum(pool.map(share, envs, shares))
    return time.perf_counter() - start_s, turns


def share(env: CodeRepairEnv, tasks: Sequence[Task]) -> int:
    """Play the oracle on some tasks; the number of turns."""
    turns = 0
    for task in tasks:
        env.reset(seed=0, options={"task": task})
        for action in env.oracle(task):
            *_, info = env.step(action)
            turns += 1
        if info["score"] is None or info["score"].outcome != 1.0:
            raise SystemExit(f"the oracle failed on {task.id}")
    return turns


def bare_starts(n: int) -> float:
    """Starts of a Python without its site module a second, on all cores at once."""
    start_s = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda _: subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True), range(n)))
    return n / (time.perf_counter() - start_s)


if __name__ == "__main__":
    main()
