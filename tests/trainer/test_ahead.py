"""The learner's thread beside the loop: whichever half fails, the other has ended before the error is raised."""

import asyncio
import threading

import pytest

from turngate.errors import ConfigError, RunError
from turngate.trainer.ahead import Ahead, run_beside

LIMIT_S = 60


def together(work, other):
    async def go():
        return await run_beside(work, other)

    return asyncio.run(asyncio.wait_for(go(), LIMIT_S))


def test_both_results_and_both_at_the_same_time():
    meanwhile = threading.Event()

    def work():
        assert meanwhile.wait(LIMIT_S)
        return threading.current_thread()

    async def other():
        meanwhile.set()
        return "played"

    thread, played = together(work, other())
    assert thread is not threading.main_thread()
    assert played == "played"


def test_an_error_of_the_learner_ends_the_play_and_is_raised_as_it_is():
    ended = []

    async def other():
        try:
            await asyncio.sleep(LIMIT_S)
        finally:
            ended.append("play")

    def work():
        raise RunError("the loss is nan")

    with pytest.raises(RunError, match="the loss is nan"):
        together(work, other())
    assert ended == ["play"]


@pytest.mark.parametrize("how", ["the play fails", "the run is cancelled"])
def test_an_update_is_not_left_half_done(how):
    begun, never, finished = threading.Event(), threading.Event(), []

    def work():
        begun.set()
        never.wait(0.2)  # long enough that a call which did not wait would have returned
        finished.append("update")

    async def other():
        await asyncio.to_thread(begun.wait, LIMIT_S)
        if how == "the play fails":
            raise RunError("no end of waves")
        await asyncio.sleep(LIMIT_S)

    async def go():
        task = asyncio.create_task(run_beside(work, other()))
        await asyncio.to_thread(begun.wait, LIMIT_S)
        if how == "the run is cancelled":
            task.cancel()
        await task

    with pytest.raises(RunError if how == "the play fails" else asyncio.CancelledError):
        asyncio.run(asyncio.wait_for(go(), LIMIT_S))
    assert finished == ["update"]


def test_what_cannot_be_saved_is_told_with_what_to_do(tmp_path):
    loop = Ahead(None, last=2)
    loop._waiting = lambda: 0
    with pytest.raises(ConfigError, match=r"train\.ahead: the episodes .* cannot be saved: .* set train\.ahead = 0"):
        loop.save(tmp_path / "ahead.pt")


def test_a_step_that_was_not_played_is_refused(tmp_path):
    class Played:
        step = 3

    loop = Ahead(None, last=9)
    loop._waiting = Played()
    with pytest.raises(RunError, match="step 3 was played and step 5 is to be trained"):
        asyncio.run(loop.step(5))
