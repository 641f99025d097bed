"""The loop of a run ends with the run: it returns and raises what the work does, and waits for nobody else."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from turngate.errors import RunError
from turngate.run.process import event_loop as loop
from turngate.run.process.event_loop import DaemonThreads, run_to_end


def test_it_returns_and_raises_what_the_work_does():
    async def add(a, b):
        return await asyncio.to_thread(lambda: a + b)

    async def fail():
        raise KeyError("x")

    assert run_to_end(add(2, 3)) == 5
    with pytest.raises(KeyError, match="x"):
        run_to_end(fail())


def test_a_call_in_a_thread_that_never_returns_is_left_behind():
    release = threading.Event()

    async def work():
        waiting = asyncio.create_task(asyncio.to_thread(release.wait))
        await asyncio.sleep(0.01)
        (stuck,) = [thread for thread in threading.enumerate() if thread.name.startswith("turngate ")]
        assert stuck.daemon
        waiting.cancel()
        return stuck

    stuck = run_to_end(work())
    assert stuck.is_alive()
    release.set()
    stuck.join(5)
    assert not stuck.is_alive()


def test_calls_that_hang_hold_up_no_other():
    release = threading.Event()

    async def work():
        hanging = [asyncio.create_task(asyncio.to_thread(release.wait)) for _ in range(50)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(asyncio.to_thread(lambda: 7), 10)
        release.set()
        await asyncio.gather(*hanging)
        return answer

    assert run_to_end(work()) == 7


def test_a_task_that_refuses_to_stop_is_left_behind(monkeypatch):
    monkeypatch.setattr(loop, "GRACE_S", 0.05)
    stopped = []

    async def stubborn():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                stopped.append(False)

    async def obedient():
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(True)

    async def work():
        tasks.extend(map(asyncio.create_task, (stubborn(), obedient())))
        await asyncio.sleep(0)
        return "done"

    tasks = []
    assert run_to_end(work()) == "done"
    assert sorted(stopped) == [False, True]
    tasks[0]._log_destroy_pending = False


def test_an_executor_hands_on_whatever_was_raised():
    def leave():
        raise SystemExit(3)

    assert isinstance(DaemonThreads().submit(leave).exception(5), SystemExit)


def test_foreign_code_cannot_end_the_program():
    async def work():
        sys.exit(0)

    with pytest.raises(RunError, match=r"called sys.exit\(0\) in test_loop.py, line \d+; raise an error instead"):
        run_to_end(work())


def test_who_ended_the_program_is_named_and_not_the_package_that_wrapped_exit():
    wrapped = compile("import sys\ndef leave():\n    sys.exit(0)\n", "/lib/site-packages/hooks.py", "exec")
    names: dict[str, Any] = {}
    exec(wrapped, names)

    async def work():
        names["leave"]()

    with pytest.raises(RunError, match=r"called sys.exit\(0\) in test_loop.py, line \d+;"):
        run_to_end(work())
