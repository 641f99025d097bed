"""Gold calls, and agents that do nothing, on every task of a checkout of tau-bench or tau2-bench.

python -m benchmarks.tau_gold tau_bench FOLDER retail airline        prints the rows of docs/tau.md
python -m benchmarks.tau_gold tau2 FOLDER retail airline mock
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import turngate
from turngate.envs.base import TurnEnv
from turngate.types import Task

HEADER = (
    "| tasks of | split | tasks | gold calls win | also `tau_strict` | gold calls that fail | "
    "`answer` alone wins | those where gold changes nothing | ms a call |"
)


def main() -> None:
    """Print a table, and below it what was left out and what the gold calls do not win."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("type", choices=("tau_bench", "tau2"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("domain", nargs="+")
    given = parser.parse_args()
    print(HEADER, "|---" * 9 + "|", sep="\n")
    notes: list[str] = []
    for domain in given.domain:
        tasks = {"type": given.type, "folder": str(given.folder), "domain": domain, "user": "nobody"}
        with turngate.make("turngate/ToolUse-v1", tasks=tasks, max_turns=100) as env:
            for split in env.tasks.splits:
                cells, lost = row(env, [env.tasks.task(split, n) for n in range(env.tasks.size(split) or 0)])
                print(f"| {given.type} {domain} | {split} | {' | '.join(cells)} |", flush=True)
                notes += [f"gold does not win: {id_}" for id_ in lost]
            reasons = Counter(one.reason for one in getattr(env.tasks, "dropped", ()))
            notes += [f"left out of {domain}: {count} tasks, because {reason}" for reason, count in reasons.items()]
    print("\n".join(notes))


def row(env: TurnEnv, tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """The cells of a split, and the tasks that the gold calls do not win."""
    start_s = perf_counter()
    gold = {task.id: _played(env, task, env.oracle(task)) for task in tasks}
    n_calls = sum(len(env.oracle(task)) for task in tasks)
    each_ms = 1000 * (perf_counter() - start_s) / max(1, n_calls)
    idle = {task.id: _played(env, task, ["answer"]) for task in tasks}
    free = [id_ for id_, facts in idle.items() if True in facts["solved"]]
    cells = [
        len(tasks),
        sum(True in facts["solved"] for facts in gold.values()),
        sum(True in facts["strictly_solved"] for facts in gold.values()),
        sum(facts["call_ok"].count(False) for facts in gold.values()),
        len(free),
        sum(True not in gold[id_]["wrote"] for id_ in free),
        f"{each_ms:.0f}",
    ]
    return [str(cell) for cell in cells], [id_ for id_, facts in gold.items() if True not in facts["solved"]]


def _played(env: TurnEnv, task: Task, actions: Sequence[str]) -> dict[str, list[object]]:
    """The values of each fact of an episode."""
    env.reset(seed=0, options={"task": task})
    found: dict[str, list[object]] = {name: [] for name in ("solved", "strictly_solved", "call_ok", "wrote")}
    for action in actions:
        for fact in env.step(action)[4]["evidence"]:
            found.setdefault(fact.name, []).append(fact.value)
    return found


if __name__ == "__main__":
    main()
