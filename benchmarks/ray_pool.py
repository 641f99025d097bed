"""What it costs to play environments in processes of a Ray cluster, and how they scale over machines:

    python -m benchmarks.ray_pool [--rounds 5]

The "machines" are raylets on this one, each with ``--slots`` environments in one process.

1. Overhead: episodes of a lock whose steps sleep ``--nap-s`` seconds, as those that wait for a tool, in a pool of
   threads and on one machine of the cluster, in turn. Limit: 1. With 0 each call's way is all there is.
2. Scaling: as many episodes for each machine on 1, 2 and 3 machines. Limit: 1, 2, 3.

Prints JSON, a list with an entry for each nap: medians of the rounds, in steps a second.
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
from turngate.envs.pool.pool import EnvPool
from turngate.envs.pool.ray_pool import RayPool

TURNS = 5
EPISODES_OF_A_SLOT = 4


async def episode(pool: EnvPool | RayPool, seed: int) -> int:
    """Play one; the number of its steps."""
    async with pool.lease() as env:
        await env.reset(None, seed)
        for turn in range(1, TURNS + 1):
            _, _, terminated, truncated, _ = await env.step("look")
            if terminated or truncated:
                return turn
    return TURNS


async def steps_per_second(pool: EnvPool | RayPool, slots: int) -> float:
    """How many steps a second ``EPISODES_OF_A_SLOT`` episodes of each slot take, all asked for at once."""
    async with pool:
        await asyncio.gather(*(episode(pool, seed) for seed in range(pool.size)))  # environments are built
        start_s = time.perf_counter()
        steps = await asyncio.gather(*(episode(pool, seed) for seed in range(slots * EPISODES_OF_A_SLOT)))
        return sum(steps) / (time.perf_counter() - start_s)


def median(rounds: int, pool: Callable[[], EnvPool | RayPool], slots: int) -> float:
    """The median of some rounds, each with a pool of its own."""
    return statistics.median(asyncio.run(steps_per_second(pool(), slots)) for _ in range(rounds))


def main() -> None:
    """Print a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=16, help="environments of a machine")
    parser.add_argument("--nap-s", type=float, nargs="+", default=[0.0, 0.02, 0.5], help="seconds of a step")
    asked = parser.parse_args()
    n, found = asked.slots, list[dict[str, object]]()
    with ray_cluster(3) as cluster, connected(cluster.address):
        for nap_s in asked.nap_s:
            make_env = partial(Sleeping, nap_s)
            here, there = partial(EnvPool, make_env), partial(RayPool, make_env, per_process=n)
            pairs = [
                (median(1, partial(here, size=n), n), median(1, partial(there, size=n), n)) for _ in range(asked.rounds)
            ]
            rates = {k: round(median(asked.rounds, partial(there, size=n * k), n * k), 1) for k in (1, 2, 3)}
            threads, ray = (round(statistics.median(side), 1) for side in zip(*pairs, strict=True))
            ratio = round(statistics.median(there / here for here, there in pairs), 2)
            found.append({"nap_s": nap_s, "threads": threads, "ray": ray, "ratio": ratio, "machines": rates})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
