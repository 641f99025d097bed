"""What a pool adds to the steps of its environments, and whether slow ones still overlap:

    python -m benchmarks.env_pool [--size 128] [--rounds 7]

1. Cheap environments: ``--size`` episodes of ``Sql-v1`` with four steps each (list_tables, describe, run_sql, submit),
   all at once as in a rollout. One thread plays the same episodes, one after another; the ratio is of wall
   times. Resets are not in the time. Limit: 1, for what the environments do is the same.
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
from typing import Any

import numpy as np

from benchmarks.sql_env import library, library_tasks
from turngate.envs.base import Outcome, TurnEnv
from turngate.envs.lock import LockEnv
from turngate.envs.pool import EnvPool, LeasedEnv
from turngate.envs.sql.env import SqlEnv
from turngate.envs.tasks import TaskList
from turngate.types import Action, Observation, Task

NAP_S, LONG_NAP_S = 0.02, 0.2


class Sleeping(LockEnv):
    """Sleeps in each step, and belongs to a thread of its own."""

    turn_spec = replace(LockEnv.turn_spec, any_thread=False)

    def act(self, action: Action) -> Outcome:
        """Take a while."""
        time.sleep(NAP_S)
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


def alone(env: TurnEnv, played: list[Task], rounds: int) -> float:
    """Median seconds of all steps of the tasks on this thread."""
    times = []
    for _ in range(rounds):
        spent = 0.0
        for task in played:
            env.reset(seed=0, options={"task": task})
            actions = env.oracle(task)
            start = time.perf_counter()
            for action in actions:
                env.step(action)
            spent += time.perf_counter() - start
        times.append(spent)
    return statistics.median(times)


async def pooled(make: Callable[[], TurnEnv], played: list[Task], rounds: int) -> tuple[float, float]:
    """Median seconds of all steps of the tasks through a pool, and of the half that is back first."""
    env = make()
    actions = [list(env.oracle(task)) for task in played]
    env.close()
    whole, half = [], []
    async with EnvPool(make, size=len(played)) as pool, AsyncExitStack() as stack:
        leased = [await stack.enter_async_context(pool.lease()) for _ in played]
        for _ in range(rounds + 1):  # the first one builds the environments
            await asyncio.gather(*(one.reset(task, seed=0) for one, task in zip(leased, played, strict=True)))
            start, back = time.perf_counter(), []

            async def play(one: LeasedEnv, lines: list[Any], back: list[float], start: float) -> None:
                for line in lines:
                    await one.step(line)
                back.append(time.perf_counter() - start)

            plays: list[Awaitable[None]] = [play(one, a, back, start) for one, a in zip(leased, actions, strict=True)]
            await asyncio.gather(*plays)
            whole.append(time.perf_counter() - start)
            half.append(statistics.median(back))
    return statistics.median(whole[1:]), statistics.median(half[1:])


def main() -> None:
    """Measure all three and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="environments of the pool")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each")
    chosen = parser.parse_args()
    questions = (library_tasks(library()) * chosen.size)[: chosen.size]
    make_sql = partial(SqlEnv, tasks=TaskList(questions[:64]))
    one_thread_s = alone(make_sql(), questions, chosen.rounds)
    pool_s, _ = asyncio.run(pooled(make_sql, questions, chosen.rounds))
    locks = [LockEnv().tasks.task("train", index) for index in range(chosen.size)]
    sleeping_s, _ = asyncio.run(pooled(Sleeping, locks, chosen.rounds))
    whole_s, half_s = asyncio.run(pooled(OneSleeps, locks, chosen.rounds))
    found = {
        "steps": 4 * chosen.size,
        "one thread, ms": 1e3 * one_thread_s,
        "pool, ms": 1e3 * pool_s,
        "ratio": pool_s / one_thread_s,
        "steps that sleep 20 ms, three after another, ms": 1e3 * sleeping_s,
        "one of many sleeps 200 ms: all, ms": 1e3 * whole_s,
        "one of many sleeps 200 ms: half of the others are back after, ms": 1e3 * half_s,
    }
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
