"""Several environments in one run, and environments in processes of their own, played by the real player.

1. A task goes to the pool that it names, and waits for nobody else's environment.
2. The environments of a pool are handed their tasks, so nothing is opened twice.
3. A process that dies costs its episode and nothing else, and leaves nothing behind.
"""

import asyncio
import os
from collections import Counter
from dataclasses import replace
from multiprocessing import resource_tracker

import pytest

import turngate
from tests.envs import pool_envs
from tests.helpers import models
from turngate.agents.policies.scripted import ScriptedPolicy, by_task
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.envs import registry
from turngate.envs.lock import RUBRIC, LockEnv
from turngate.envs.pool.pool import EnvPool
from turngate.envs.pool.pools import EnvPools, maker
from turngate.errors import ConfigError, UnknownName
from turngate.sandbox.reaper import processes_below
from turngate.types import Ending, Evidence

LOCK = "turngate/Lock-v1"
ROOMY = TokenLimits(turn_tokens=400, context=20_000)


def named(name, tasks):
    """As a run tags them."""
    return [replace(task, id=f"{name}:{task.id}", env_id=name) for task in tasks]


def keys(tasks):
    """A policy that opens every lock."""
    env = LockEnv()
    return ScriptedPolicy(by_task({task.id: env.oracle(task) for task in tasks}), models.chat(), concurrency=4)


def play(policy, pools, tasks, *, limits=ROOMY):
    """One trajectory per task."""

    async def go():
        async with pools() as worlds:
            player = Player(policy, models.chat(), limits)
            groups = await play_groups(player, worlds, tasks, [[None]] * len(tasks), seed=3)
        return [trajectory for group in groups for trajectory in group.trajectories]

    return asyncio.run(asyncio.wait_for(go(), 90))


def children():
    """Processes below this one, but for the one with which Python cleans up after others."""
    return set(processes_below(os.getpid())) - {resource_tracker._resource_tracker._pid}


@pytest.fixture(autouse=True)
def _gates():
    pool_envs.NotedLock.over = 0
    pool_envs.GATES["a"].clear()
    yield
    pool_envs.GATES["a"].set()


# --- several environments ---------------------------------------------------------------------------------------------


def test_a_task_goes_to_the_environment_that_it_names():
    async def go():
        made = {"locks": EnvPool(LockEnv, size=1), "stuck": EnvPool(pool_envs.StuckLock, size=2)}
        async with EnvPools(made) as worlds:
            lock, stuck = (named(name, models.tasks(1))[0] for name in made)
            assert (worlds.size, worlds.free(lock)) == (3, True)
            async with worlds.lease(lock) as world:
                await world.reset(lock, 0)
                assert (worlds.free(lock), worlds.free(stuck)) == (False, True)
                assert (made["locks"].resets, made["stuck"].resets) == (1, 0)
            assert worlds.free(lock)
            with pytest.raises(UnknownName, match=r"of task 'lokcs:.*' 'lokcs'; did you mean 'locks'"):
                worlds.lease(named("lokcs", models.tasks(1))[0])

    asyncio.run(asyncio.wait_for(go(), 30))
    with pytest.raises(ConfigError, match="at least one environment"):
        EnvPools({})


def test_a_full_slow_environment_holds_up_no_other():
    """The slow one answers only when every episode of the quick one is over; its episodes come first in the queue."""
    slow, quick = named("slow", models.tasks(5)), named("quick", models.tasks(6))

    def pools():
        return EnvPools({"slow": EnvPool(pool_envs.StuckLock, size=1), "quick": EnvPool(pool_envs.NotedLock, size=3)})

    played = play(keys(slow + quick), pools, slow + quick)
    assert [one.task.env_id for one in played] == ["slow"] * 5 + ["quick"] * 6
    assert {RUBRIC.score(one.record()).outcome for one in played} == {1.0}


@pytest.mark.parametrize("order", ["fixed", "ready"])
@pytest.mark.parametrize("sizes", [(1, 3), (2, 2), (1, 1)])
def test_lanes_that_wait_for_an_environment_never_stop_the_engine(order, sizes):
    """An engine with a fixed order waits for every slot; one that waits for an environment must not be among them."""
    tasks = named("a", models.tasks(6)) + named("b", models.tasks(4))

    def pools():
        return EnvPools({"a": EnvPool(LockEnv, size=sizes[0]), "b": EnvPool(models.ShortLock, size=sizes[1])})

    def once():
        played = play(models.local(concurrency=4, order=order), pools, tasks, limits=models.LIMITS)
        assert [one.task.id for one in played] == [task.id for task in tasks]
        assert {one.ending for one in played} <= {Ending.FINISHED, Ending.MAX_TURNS}
        return played

    first, second = once(), once()
    if order == "fixed":
        assert first == second  # to the last bit: which episodes share a batch depends on nothing but the seed


# --- environments of a pool -------------------------------------------------------------------------------------------


def test_environments_of_a_pool_open_no_task_source(tmp_path):
    make = maker("turngate/Sql-v1", tasks={"type": "spider", "folder": str(tmp_path / "none")}, split="dev", max_rows=3)
    env = make()
    assert env.tasks.splits == ("given",)
    task = turngate.make("turngate/Sql-v1").tasks.task("train", 0)
    assert env.reset(seed=0, options={"task": task})[1]["task_id"] == "sql/train/0"
    env.close()
    with pytest.raises(UnknownName, match="did you mean 'turngate/Sql-v1'"):
        maker("turngate/Sq-v1")


@pytest.mark.parametrize("id", [LOCK, "turngate/Sql-v1", "turngate/CodeRepair-v1"])
def test_every_shipped_environment_plays_in_processes(id):
    before = children()
    with turngate.make(id) as env:
        tasks = named("mine", [env.tasks.task("train", index) for index in range(3)])  # by its name in the run
        policy = ScriptedPolicy(by_task({task.id: env.oracle(task) for task in tasks}), models.chat(), concurrency=2)

    def pools():
        return EnvPools({"mine": EnvPool(maker(id), size=2, isolation="process")})

    played = play(policy, pools, tasks)
    assert [(one.ending, one.error) for one in played] == [(Ending.FINISHED, "")] * 3
    assert [env.turn_spec.rubric.score(one.record()).outcome for one in played] == [1.0] * 3
    assert all(one.answer() for one in played)
    assert children() <= before


@pytest.fixture
def dying():
    registry.register("test/Dying-v0", "tests.envs.pool_envs:DyingLock")
    yield "test/Dying-v0"
    registry._registered.pop("test/Dying-v0")
    registry.gymnasium.registry.pop("test/Dying-v0")


@pytest.mark.parametrize(
    ("how", "said"), [("exit", "ended with exit code 3"), ("signal", "was ended by signal SIGSEGV")]
)
def test_a_process_that_dies_costs_its_episode_and_nothing_else(dying, how, said):
    before, tasks = children(), models.tasks(6)

    def pools():
        return EnvPool(maker(dying, how=how), size=2, isolation="process")

    played = play(keys(tasks), pools, tasks)
    assert Counter(one.ending for one in played) == {Ending.FINISHED: 5, Ending.AGENT_FAULT: 1}
    assert (played[2].ending, len(played[2].turns)) == (Ending.AGENT_FAULT, 2)
    assert played[2].facts_of(1) == (
        Evidence(name="agent_fault", value=f"the environment's process {said} during 'step'", turn=1),
    )
    scores = [RUBRIC.score(one.record()) for one in played]
    assert [score.outcome for score in scores] == [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    assert children() <= before
