"""Environments on three raylets of a real Ray cluster: what ``RayPool`` promises.

1. They give what an environment gives, and are spread over the nodes.
2. A hang or a crash of an environment is dealt with on its node: the same errors as in any pool.
3. A process that is killed, a node that dies and a process that stands still raise EnvError in every call of their
   leases, never AgentFault; others go on, the lost one comes back, and where nothing comes back ``lease`` says why.
4. What cannot work is refused before any episode: no room, a folder or a package that a node lacks.
5. Nothing is left behind.
"""

import asyncio
import functools
import importlib.util
import os
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.envs.pool_envs import BrokenConstructor, PoolEnv
from tests.envs.test_pool import is_running, until
from tests.helpers.ray_cluster import ray_cluster
from turngate.cluster.ray_connection import connected
from turngate.envs.pool import ray_pool
from turngate.envs.pool.node_envs import NodeEnvs
from turngate.envs.pool.process import pickled
from turngate.envs.pool.ray_pool import RayPool
from turngate.errors import AgentFault, ConfigError, EnvError, RunError
from turngate.types import Ending

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
Pool = functools.partial(RayPool, PoolEnv, resources={"CPU": 0.25})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_cluster(3) as cluster, connected(cluster.address):
        yield cluster


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 120))


async def begun(env: Any) -> int:
    """Begin an episode; the process that it is in."""
    observation, _ = await env.reset(None, 1)
    return int(observation.text.split()[0])


def test_an_episode_gives_what_the_env_gives_and_processes_are_spread(cluster: Any) -> None:
    async def scenario() -> None:
        async with Pool(size=6, per_process=2) as pool, AsyncExitStack() as leases:
            assert pool.free()
            envs = [await leases.enter_async_context(pool.lease()) for _ in range(6)]
            assert not pool.free()
            pids = await asyncio.gather(*(begun(env) for env in envs))
            assert len(set(pids)) == 3
            assert os.getpid() not in pids
            observation, reward, terminated, truncated, info = await envs[0].step("do end x")
            assert (reward, terminated, truncated, info["ending"]) == (0.0, True, False, Ending.FINISHED)
            assert observation.state_key == "on"
            await envs[1].finish(Ending.TOKEN_BUDGET)
            assert len({raylet_of(pid) for pid in pids}) == 3
        await until(lambda: not any(map(is_running, pids)))

    run(scenario())


def raylet_of(pid: int) -> int:
    """The process that started it, one on each node."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_what_an_env_does_to_itself_is_dealt_with_on_its_node(cluster: Any, mode: Any) -> None:
    async def scenario() -> None:
        async with Pool(size=1, isolation=mode) as pool:
            async with pool.lease() as env:
                home = await begun(env)
                with pytest.raises(EnvError, match="odd"):
                    await env.step("do raise ValueError")
            if mode == "process":
                async with pool.lease() as env:
                    await begun(env)
                    with pytest.raises(AgentFault, match="exit code 9"):
                        await env.step("do die 9")
            async with pool.lease() as env:  # the process of the pool did not die
                there = await begun(env)
                assert mode == "process" or there == home

    run(scenario())


def test_a_process_that_is_killed_costs_its_episodes_and_comes_back(cluster: Any) -> None:
    async def scenario() -> None:
        async with Pool(size=2, per_process=1) as pool:
            async with pool.lease() as first, pool.lease() as second:
                lost, other = await begun(first), await begun(second)
                asked = asyncio.create_task(first.step("do sleep 30"))
                await asyncio.sleep(0.5)
                os.kill(lost, signal.SIGKILL)
                with pytest.raises(EnvError, match="lost during 'step'"):
                    await asked
                with pytest.raises(EnvError, match="lost before 'finish'"):
                    await first.finish(Ending.TOKEN_BUDGET)
                assert (await second.step("do nothing x"))[0].text.startswith(f"{other} ")
            async with pool.lease() as one, pool.lease() as two:  # waits until the lost one is back
                pids = {await begun(one), await begun(two)}
                assert other in pids
                assert lost not in pids
                assert len(pids) == 2

    run(scenario())


def test_a_process_that_stands_still_is_given_up_within_its_deadline(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a network that is cut: it neither answers nor ends."""

    async def scenario() -> None:
        async with Pool(size=1) as pool:
            async with pool.lease() as env:
                pid = await begun(env)
                monkeypatch.setattr(ray_pool, "NETWORK_S", -43.0)  # 2 × 20 s that the environment declares, 5 s, this
                monkeypatch.setattr(pool, "_start_s", 3.0)
                os.kill(pid, signal.SIGSTOP)
                with pytest.raises(EnvError, match="did not answer within 2 s"):
                    await env.step("do nothing x")
            with pytest.raises(RunError, match="came back within 3 s: its node did not answer"):
                async with pool.lease():
                    pass
        await until(lambda: not is_running(pid))

    run(scenario())


def test_a_node_that_dies_costs_its_episodes_and_its_process_goes_elsewhere(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=80_000_000, resources={"spare": 1})

    async def scenario() -> None:
        async with (
            RayPool(PoolEnv, size=1, resources={"CPU": 0.25, "spare": 0.5}) as pool,
            pool.lease() as env,
        ):
            await begun(env)
            asked = asyncio.create_task(env.step("do sleep 60"))
            await asyncio.sleep(0.5)
            cluster.remove_node(node, allow_graceful=False)
            with pytest.raises(EnvError, match="lost during 'step'"):
                await asked
            cluster.add_node(num_cpus=1, object_store_memory=80_000_000, resources={"spare": 1})
            await until_free(pool)
        async with RayPool(PoolEnv, size=1, resources={"CPU": 0.25, "spare": 0.5}) as pool, pool.lease() as env:
            await begun(env)

    async def until_free(pool: RayPool) -> None:
        for _ in range(600):
            if any(not process.cause for process in pool._processes):
                return
            await asyncio.sleep(0.1)
        raise AssertionError("it never came back")

    run(scenario())


def test_what_cannot_work_is_refused_before_any_episode(cluster: Any) -> None:
    async def opened(pool: RayPool) -> None:
        async with pool:
            pass

    with pytest.raises(ConfigError, match=r"2 processes of environments need 200 CPU, and the cluster has \d"):
        run(opened(RayPool(PoolEnv, size=64, resources={"CPU": 100.0})))
    with pytest.raises(ConfigError, match="1 processes of environments need 1 browser, and the cluster has 0"):
        run(opened(RayPool(PoolEnv, size=1, resources={"browser": 1.0})))
    with pytest.raises(ConfigError, match=r"node \S+: .*no disk"):
        run(opened(RayPool(BrokenConstructor, size=1, resources={"CPU": 0.25})))
    with pytest.raises(ConfigError, match="cannot be sent to a process"):
        RayPool(lambda: PoolEnv(), size=1)


def test_a_node_that_lacks_the_folder_of_the_run_says_so() -> None:
    _, problem = asyncio.run(NodeEnvs(pickled(PoolEnv), 1, "thread", "/not/shared").open())
    assert "cannot enter '/not/shared', where the run was started: No such file" in problem
    assert "must share that folder" in problem
