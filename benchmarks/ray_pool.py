"""What it costs to play environments in processes of a Ray cluster, and how they scale over machines:

    python -m benchmarks.ray_pool [--rounds 5]

The "machines" are raylets on this one, each with ``--slots`` environments in one process.

1. Overhead: episodes of a lock whose steps sleep 20 ms, as one that waits for a tool, in a pool of threads and on one
   machine of the cluster, in turn. Limit: 1.
2. The same with steps that do nothing, where each call's way is all there is.
3. Scaling: three times as many episodes on 1, 2 and 3 machines. Limit: 1, 2, 3.

Prints JSON: medians of the rounds, in steps a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

from benchmarks.env_pool import Sleeping
from tests.helpers.ray_cluster import ray_cluster
from turngate.cluster.ray_connection import connected
from turngate.envs.base import TurnEnv
from turngate.envs.lock import LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.envs.pool.ray_pool import RayPool

TURNS = 5
EPISODES_OF_A_SLOT = 8


async def episode(pool: EnvPool | RayPool, seed: int) -> int:
    """Play one; the number of its steps."""
    async with pool.lease() as env:
        await env.reset(None, seed)
        for turn in range(1, TURNS + 1):
            _, _, terminated, truncated, _ = await env.step("look")
            if terminated or truncated:
                return turn
    return TURNS


async def steps_per_second(pool: EnvPool | RayPool, episodes: int) -> float:
    """How many steps a second so many episodes take, all of which are asked for at once."""
    async with pool:
        await asyncio.gather(*(episode(pool, seed) for seed in range(pool.size)))  # environments are built
        start_s = time.perf_counter()
        steps = await asyncio.gather(*(episode(pool, seed) for seed in range(episodes)))
        return sum(steps) / (time.perf_counter() - start_s)


def median(rounds: int, pool: Callable[[], EnvPool | RayPool], episodes: int) -> float:
    """The median of some rounds, each with a pool of its own."""
    return statistics.median(asyncio.run(steps_per_second(pool(), episodes)) for _ in range(rounds))


def main() -> None:
    """Print a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=16, help="environments of a machine")
    asked = parser.parse_args()
    n, found = asked.slots, dict[str, object]()
    kinds: dict[str, Callable[[], TurnEnv]] = {"sleeping": Sleeping, "idle": LockEnv}
    with ray_cluster(3) as cluster, connected(cluster.address):
        for name, make_env in kinds.items():
            ratios = []
            for _ in range(asked.rounds):
                here = median(1, partial(EnvPool, make_env, size=n), n * EPISODES_OF_A_SLOT)
                there = median(1, partial(RayPool, make_env, size=n, per_process=n), n * EPISODES_OF_A_SLOT)
                ratios.append((there / here, here, there))
            ratio, here, there = (round(statistics.median(values), 2) for values in zip(*ratios, strict=True))
            found[name] = {"threads": here, "ray": there, "ratio": ratio}
        found["machines"] = {
            machines: round(
                median(
                    asked.rounds,
                    partial(RayPool, Sleeping, size=n * machines, per_process=n),
                    3 * n * EPISODES_OF_A_SLOT,
                ),
                1,
            )
            for machines in (1, 2, 3)
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
