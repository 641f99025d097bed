"""What a pool adds to the steps of its environments, and whether slow ones still overlap:

    python -m benchmarks.env_pool [--size 128] [--rounds 7]

1. Cheap environments: ``--size`` episodes of ``Sql-v1`` with four steps each (list_tables, describe, run_sql, submit),
   all at once as in a rollout. In turn with each round one thread plays the same episodes, one after another; the
   ratios are of both rounds' wall times, and of their processor times, which depend less on what else the machine
   does. Resets are not in the time. Limit: 1, for what the environments do is the same.
2. Slow environments, of a thread each: the same number of steps that sleep 20 ms. Limit: 20 ms, if all overlap.
3. One slow step among cheap ones that share threads: ``--size`` steps, of which one sleeps 200 ms; the time until the
   others are back.

Prints JSON: medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.sql_env import library, library_tasks
from turngate.envs.base import Outcome, TurnEnv
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool, LeasedEnv
from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Action, Observation, Task

NAP_S, LONG_NAP_S = 0.02, 0.2


class Spent(NamedTuple):
    """A round: wall time, processor time of all threads, and when half of the episodes were back."""

    wall_s: float
    cpu_s: float
    half_s: float


class Sleeping(LockEnv):
    """Sleeps in each step, and belongs to a thread of its own."""

    turn_spec = replace(LockEnv.turn_spec, any_thread=False)

    def __init__(self, nap_s: float = NAP_S) -> None:
        super().__init__()
        self._nap_s = nap_s

    def act(self, action: Action) -> Outcome:
        """Take a while."""
        time.sleep(self._nap_s)
        return super().act(action)


class OneSleeps(LockEnv):
    """The one environment of a pool whose task has the number 0 sleeps in its first step."""

    def start(self, task: Task, rng: np.random.Generator) -> Observation:
        """Remember whether it is the one."""
        self.naps = task.id.endswith("/0")
        return super().start(task, rng)

    def act(self, action: Action) -> Outcome:
        """Sleep once."""
        if self.naps:
            self.naps = False
            time.sleep(LONG_NAP_S)
        return super().act(action)


def alone(env: TurnEnv, played: list[Task]) -> Spent:
    """All steps of the tasks on this thread."""
    wall_s = cpu_s = 0.0
    for task in played:
        env.reset(seed=0, options={"task": task})
        actions = env.oracle(task)
        start = time.perf_counter(), time.process_time()
        for action in actions:
            env.step(action)
        wall_s, cpu_s = wall_s + time.perf_counter() - start[0], cpu_s + time.process_time() - start[1]
    return Spent(wall_s, cpu_s, 0.0)


async def pooled(
    make: Callable[[], TurnEnv], played: list[Task], rounds: int, between: Callable[[], None] = lambda: None
) -> list[Spent]:
    """All steps of the tasks through a pool; ``between`` is called before each round that counts."""
    env = make()
    actions = [list(env.oracle(task)) for task in played]
    env.close()
    found = []
    async with EnvPool(make, size=len(played)) as pool, AsyncExitStack() as stack:
        leased = [await stack.enter_async_context(pool.lease()) for _ in played]
        for number in range(rounds + 1):  # the first one builds the environments
            if number:
                between()
            await asyncio.gather(*(one.reset(task, seed=0) for one, task in zip(leased, played, strict=True)))
            start, cpu, back = time.perf_counter(), time.process_time(), list[float]()

            async def play(one: LeasedEnv, lines: list[Any], back: list[float], start: float) -> None:
                for line in lines:
                    await one.step(line)
                back.append(time.perf_counter() - start)

            plays: list[Awaitable[None]] = [play(one, a, back, start) for one, a in zip(leased, actions, strict=True)]
            await asyncio.gather(*plays)
            spent = Spent(time.perf_counter() - start, time.process_time() - cpu, statistics.median(back))
            found.append(spent)
    return found[1:]


def middle(spent: list[Spent], name: str) -> float:
    """Median of a column, in milliseconds."""
    return 1e3 * float(statistics.median(getattr(one, name) for one in spent))


def main() -> None:
    """Measure all three and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="environments of the pool")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each")
    chosen = parser.parse_args()
    questions = (library_tasks(library()) * chosen.size)[: chosen.size]
    make_sql = partial(SqlEnv, tasks=TaskList(questions[:64]))
    one_thread, env = list[Spent](), make_sql()
    pool = asyncio.run(
        pooled(make_sql, questions, chosen.rounds, between=lambda: one_thread.append(alone(env, questions)))
    )
    locks = [LockEnv().tasks.task("train", index) for index in range(chosen.size)]
    sleeping = asyncio.run(pooled(Sleeping, locks, chosen.rounds))
    one_sleeps = asyncio.run(pooled(OneSleeps, locks, chosen.rounds))
    pairs = list(zip(pool, one_thread, strict=True))
    found = {
        "steps": 4 * chosen.size,
        "one thread, ms": middle(one_thread, "wall_s"),
        "pool, ms": middle(pool, "wall_s"),
        "ratio": statistics.median(a.wall_s / b.wall_s for a, b in pairs),
        "ratio of processor times": statistics.median(a.cpu_s / b.cpu_s for a, b in pairs),
        "steps that sleep 20 ms, three after another, ms": middle(sleeping, "wall_s"),
        "one of many sleeps 200 ms: all, ms": middle(one_sleeps, "wall_s"),
        "one of many sleeps 200 ms: half of the others are back after, ms": middle(one_sleeps, "half_s"),
    }
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
