"""The pool's promises: readiness order, deadlines, errors, reuse, and nothing left behind."""

import asyncio
import functools
import logging
import os
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.envs import pool_envs
from tests.envs.pool_envs import PoolEnv, SharingEnv
from turngate.envs.pool.pool import EnvPool
from turngate.errors import AgentFault, ConfigError, EnvError, RunError, UnknownName, VerifierError
from turngate.types import Ending

MODES = ("thread", "process")


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 60))


def env_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("turngate-env")]


def is_running(pid):
    """Whether ``pid`` exists and is not merely waiting to be reaped by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never became true")


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    for gate in pool_envs.GATES.values():
        gate.clear()
    yield
    for gate in pool_envs.GATES.values():
        gate.set()
    assert env_threads() == []


@pytest.mark.parametrize("mode", MODES)
def test_an_episode_gives_what_the_env_gives(mode):
    async def scenario():
        async with EnvPool(PoolEnv, size=2, isolation=mode) as pool, pool.lease() as env:
            observation, info = await env.reset("pool/0", seed=3)
            assert info["task_id"] == "pool/0"
            assert observation.text.startswith(f"{os.getpid()} ") == (mode == "thread")
            reply, reward, terminated, truncated, info = await env.step("do nothing -")
            assert (reply.text, reward, terminated, truncated) == (observation.text, 0.0, False, False)
            reward, info = await env.finish(Ending.TOKEN_BUDGET)
            assert (reward, info["ending"]) == (0.0, Ending.TOKEN_BUDGET)
            assert [fact.name for fact in info["evidence"]] == ["answer", "done"]
            assert (pool.resets, pool.calls, pool.lost_workers) == (1, 3, 0)

    run(scenario())


def test_a_slow_environment_holds_nobody_up():
    async def scenario():
        order = []
        async with EnvPool(PoolEnv, size=2) as pool:

            async def slow():
                async with pool.lease() as env:
                    await env.reset()
                    await env.step("do wait a")
                    order.append("slow")

            async def quick():
                async with pool.lease() as env:
                    await env.reset()
                    for _ in range(5):
                        await env.step("do nothing -")
                        order.append("quick")
                pool_envs.GATES["a"].set()

            await asyncio.gather(slow(), quick())
        assert order == ["quick"] * 5 + ["slow"]

    run(scenario())


def test_an_environment_stays_on_its_thread_and_is_used_again():
    async def scenario():
        PoolEnv.made = PoolEnv.closed = 0
        places = set()
        async with EnvPool(PoolEnv, size=2) as pool:

            async def episode():
                async with pool.lease() as env:
                    observation, _ = await env.reset()
                    places.add(observation.text)
                    await env.step("do end -")

            await asyncio.gather(*[episode() for _ in range(20)])
            assert (pool.resets, pool.lost_workers) == (20, 0)
        assert len(places) == PoolEnv.made == PoolEnv.closed == 2

    run(scenario())


def test_environments_that_any_thread_may_call_share_threads():
    async def scenario():
        SharingEnv.made = SharingEnv.closed = 0
        async with EnvPool(SharingEnv, size=32) as pool, AsyncExitStack() as stack:
            leased = [await stack.enter_async_context(pool.lease()) for _ in range(32)]
            await asyncio.gather(*(env.reset() for env in leased))
            await until(lambda: len(env_threads()) == 0)  # those in which they were built
            replies = await asyncio.gather(*(env.step("do nothing -") for env in leased))
            assert len({reply[0].text for reply in replies}) <= 2
            waiting = asyncio.create_task(leased[0].step("do wait a"))
            hanging = asyncio.create_task(leased[1].step("do wait b"))
            for _ in range(3):  # one that waits holds nobody up
                await asyncio.gather(*(env.step("do nothing -") for env in leased[2:]))
            assert not waiting.done()
            pool_envs.GATES["a"].set()
            pool_envs.GATES["b"].set()
            await asyncio.gather(waiting, hanging)
            assert pool.lost_workers == 0
        assert SharingEnv.made == SharingEnv.closed == 32

    run(scenario())


def test_a_shared_thread_that_hangs_is_replaced():
    async def scenario():
        async with EnvPool(SharingEnv, size=2, deadline_s=20.0, close_s=0.1) as pool:
            async with pool.lease() as env:
                await env.reset()
                pool.deadline_s = 0.1
                with pytest.raises(AgentFault, match="took longer than"):
                    await env.step("do wait a")
                pool.deadline_s = 20.0
            async with pool.lease() as one, pool.lease() as other:
                await asyncio.gather(one.reset(), other.reset())
                waiting = asyncio.create_task(one.step("do wait b"))
                await other.step("do nothing -")
                pool_envs.GATES["b"].set()
                await waiting
            assert pool.lost_workers == 1
        pool_envs.GATES["a"].set()
        await until(lambda: env_threads() == [])

    run(scenario())


def test_no_more_than_size_environments_at_once():
    async def scenario():
        active, most = 0, 0
        async with EnvPool(PoolEnv, size=3) as pool:

            async def episode():
                nonlocal active, most
                async with pool.lease() as env:
                    active += 1
                    most = max(most, active)
                    await env.reset()
                    active -= 1

            await asyncio.gather(*[episode() for _ in range(12)])
        assert most == 3

    run(scenario())


def test_a_thread_beyond_its_deadline_is_abandoned_and_replaced():
    async def scenario():
        async with EnvPool(PoolEnv, size=1, deadline_s=0.1) as pool:
            async with pool.lease() as env:
                first, _ = await env.reset()
                with pytest.raises(AgentFault, match=r"'step' of the environment took longer than 0\.1 s"):
                    await env.step("do wait a")
                with pytest.raises(EnvError, match="passed its deadline before 'step' and was abandoned"):
                    await env.step("do nothing -")
            async with pool.lease() as env:
                second, _ = await env.reset()
            assert second.text != first.text
            assert pool.lost_workers == 1
            pool_envs.GATES["a"].set()
            await until(lambda: len(env_threads()) == 1)  # the abandoned thread ends when its call does

    run(scenario())


def test_a_process_beyond_its_deadline_is_killed_with_all_it_started(tmp_path):
    async def scenario():
        pids = tmp_path / "pids"
        async with EnvPool(PoolEnv, size=1, isolation="process", deadline_s=10.0) as pool:
            async with pool.lease() as env:
                await env.reset()
                pool.deadline_s = 0.2
                with pytest.raises(AgentFault, match="took longer than"):
                    await env.step(f"do spawn {pids}")
            await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
            victims = [int(pid) for pid in pids.read_text().split()]
            assert len(victims) == 3
            await until(lambda: not any(is_running(pid) for pid in victims))
            assert pool.lost_workers == 1

    run(scenario())


def test_the_default_deadline_comes_from_what_the_environment_declares():
    async def scenario():
        async with EnvPool(PoolEnv, size=1) as pool, pool.lease() as env:
            waits = []
            loop = asyncio.get_running_loop()
            call_later, loop.call_later = loop.call_later, lambda s, *a: (waits.append(s), call_later(s, *a))[1]
            await env.reset()
            await env.step("do nothing -")
            assert waits == [300.0, 2 * 20.0 + 5.0]

    run(scenario())


@pytest.mark.parametrize("mode", MODES)
def test_errors_keep_their_type_and_the_environment_is_built_anew(mode):
    async def scenario():
        async with EnvPool(PoolEnv, size=1, isolation=mode) as pool:
            async with pool.lease() as env:
                first, _ = await env.reset()
                with pytest.raises(VerifierError, match="no verdict"):
                    await env.step("do raise VerifierError")
            async with pool.lease() as env:
                with pytest.raises(UnknownName, match="unknown task 'pool/1'; did you mean 'pool/0'"):
                    await env.reset("pool/1")
                second, _ = await env.reset()
                with pytest.raises(EnvError, match=r"broke in turn 0: ValueError: odd"):
                    await env.step("do raise ValueError")
            assert pool.lost_workers == 0
            assert (first.text.split()[0] == second.text.split()[0]) == (mode == "thread")

    run(scenario())


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_an_exit_inside_an_environment_is_an_error_of_the_episode(isolation):
    async def scenario():
        async with EnvPool(PoolEnv, size=1, isolation=isolation) as pool:
            async with pool.lease() as env:
                await env.reset()
                with pytest.raises(EnvError, match=r"PoolEnv broke in turn 0: SystemExit: 3"):
                    await env.step("do leave -")
            async with pool.lease() as env:
                await env.reset()

    run(scenario())


def test_a_process_that_dies_is_named_by_its_exit_code_and_replaced():
    async def scenario():
        async with EnvPool(PoolEnv, size=1, isolation="process") as pool, pool.lease() as env:
            await env.reset()
            with pytest.raises(AgentFault, match="process ended with exit code 9 during 'step'"):
                await env.step("do die 9")
            assert (await env.reset())[0].text

    run(scenario())


def test_a_process_killed_from_outside_is_named_by_its_signal():
    async def scenario():
        async with EnvPool(PoolEnv, size=1, isolation="process") as pool, pool.lease() as env:
            observation, _ = await env.reset()
            os.kill(int(observation.text.split()[0]), 9)
            with pytest.raises(AgentFault, match="was ended by signal SIGKILL during 'step'"):
                await env.step("do nothing -")

    run(scenario())


@pytest.mark.parametrize("mode", MODES)
def test_an_environment_that_cannot_be_built_is_an_error_of_the_episode(mode):
    async def scenario():
        async with EnvPool(pool_envs.BrokenConstructor, size=1, isolation=mode) as pool, pool.lease() as env:
            with pytest.raises(EnvError, match="OSError: no disk"):
                await env.reset()

    run(scenario())


def test_a_process_that_dies_while_it_is_built():
    async def scenario():
        async with EnvPool(pool_envs.exits_when_built, size=1, isolation="process") as pool, pool.lease() as env:
            with pytest.raises(EnvError, match="ended with exit code 7 during 'construction'"):
                await env.reset()

    run(scenario())


@pytest.mark.parametrize("mode", MODES)
def test_closing_in_the_middle_of_steps(mode):
    async def scenario():
        pool = EnvPool(PoolEnv, size=2, isolation=mode)
        stepping = asyncio.Event()

        async def episode():
            async with pool.lease() as env:
                await env.reset()
                stepping.set()
                await env.step("do sleep 0.3")

        tasks = [asyncio.create_task(episode()) for _ in range(3)]
        await stepping.wait()
        await asyncio.sleep(0.05)
        await pool.close()
        assert env_threads() == []
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [EnvError] * 3
        assert "closed" in str(results[2])
        with pytest.raises(EnvError, match="the environment pool is closed"):
            async with pool.lease():
                pass
        await pool.close()

    run(scenario())


def test_a_stuck_thread_is_named_when_the_pool_closes(caplog):
    async def scenario():
        pool = EnvPool(PoolEnv, size=1, close_s=0.1)

        async def episode():
            async with pool.lease() as env:
                await env.reset()
                await env.step("do wait b")

        task = asyncio.create_task(episode())
        await until(lambda: pool.calls == 2)
        with caplog.at_level(logging.WARNING):
            await pool.close()
        assert "1 environment threads are stuck in a call and were left: turngate-env-" in caplog.text
        assert pool.lost_workers == 1
        assert all(thread.daemon for thread in env_threads())
        with pytest.raises(EnvError, match="closed during 'step'"):
            await task
        pool_envs.GATES["b"].set()
        await until(lambda: env_threads() == [])

    run(scenario())


def test_threads_that_hang_for_ever_are_bounded_and_the_line_says_what_helps():
    async def scenario():
        async with EnvPool(PoolEnv, size=2, deadline_s=20.0, close_s=0.1) as pool:

            async def hang():
                async with pool.lease() as env:
                    await env.reset()
                    pool.deadline_s = 0.05
                    with pytest.raises(AgentFault, match="took longer than"):
                        await env.step("do wait b")
                    pool.deadline_s = 20.0

            for _ in range(4):
                await hang()
            line = r'4 threads hang in environments .*; set env\.isolation = "process", so that .* is killed'
            for _ in range(2):  # every time, and the slot is not lost
                with pytest.raises(RunError, match=line):
                    async with pool.lease():
                        pass
            assert pool.lost_workers == 4
            assert all(thread.daemon for thread in env_threads())
            pool_envs.GATES["b"].set()
            await until(lambda: env_threads() == [])  # they came back after all
            async with pool.lease() as env:
                await env.reset()

    run(scenario())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["raises", "exits"])
def test_an_environment_that_cannot_be_closed_is_a_warning(mode, how, caplog):
    async def scenario():
        kind = {"raises": pool_envs.RaisesInClose, "exits": pool_envs.ExitsInClose}[how]
        async with EnvPool(kind, size=1, isolation=mode) as pool, pool.lease() as env:
            await env.reset()
        assert pool.lost_workers == 0
        assert env_threads() == []

    with caplog.at_level(logging.WARNING):
        run(scenario())
    raised = {"raises": "OSError: still in use", "exits": "SystemExit: 3"}[how]
    assert [record.getMessage() for record in caplog.records] == [
        f"an environment could not be closed; processes or files of it may be left behind: {raised}"
    ]


def test_a_process_that_hangs_in_close_is_killed():
    async def scenario():
        pool = EnvPool(pool_envs.StuckInClose, size=1, isolation="process", close_s=0.2)
        async with pool.lease() as env:
            observation, _ = await env.reset()
        await pool.close()
        assert not is_running(observation.text.split()[0])
        assert pool.lost_workers == 1

    run(scenario())


def test_a_cancelled_call_keeps_its_environment_until_it_is_back():
    async def scenario():
        async with EnvPool(PoolEnv, size=1) as pool:

            async def episode():
                async with pool.lease() as env:
                    await env.reset()
                    await env.step("do wait a")

            task = asyncio.create_task(episode())
            await until(lambda: pool.calls == 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            following = asyncio.create_task(self_contained(pool))
            await asyncio.sleep(0.05)
            assert pool.resets == 1  # the slot is still taken
            pool_envs.GATES["a"].set()
            await following
            assert (pool.resets, pool.lost_workers) == (2, 0)

    async def self_contained(pool):
        async with pool.lease() as env:
            await env.reset()

    run(scenario())


def test_misuse_of_a_lease_is_refused():
    async def scenario():
        async with EnvPool(PoolEnv, size=1) as pool:
            async with pool.lease() as env:
                await env.reset()
                first = asyncio.create_task(env.step("do sleep 0.05"))
                await asyncio.sleep(0)
                with pytest.raises(RuntimeError, match="busy"):
                    await env.step("do nothing -")
                await first
            with pytest.raises(RuntimeError, match="given back"):
                await env.step("do nothing -")

    run(scenario())


def test_time_inside_calls_is_summed_over_workers():
    async def scenario():
        async with EnvPool(PoolEnv, size=2) as pool:

            async def episode():
                async with pool.lease() as env:
                    await env.reset()
                    await env.step("do sleep 0.1")

            start_s = time.monotonic()
            await asyncio.gather(episode(), episode())
            assert pool.env_time_s >= 0.2
            assert pool.env_time_s <= 2 * (time.monotonic() - start_s)

    run(scenario())


def test_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="size is 0"):
        EnvPool(PoolEnv, size=0)
    with pytest.raises(ConfigError, match="isolation is 'fork'; use 'thread' or 'process'"):
        EnvPool(PoolEnv, size=1, isolation="fork")
    with pytest.raises(ConfigError, match=r"functools\.partial\(turngate\.make, ID\)"):
        EnvPool(lambda: PoolEnv(), size=1, isolation="process")
    EnvPool(functools.partial(PoolEnv), size=1, isolation="process")
