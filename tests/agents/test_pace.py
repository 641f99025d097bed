"""When slots rejoin, played out with a fake engine that only notes who is in each step."""

import asyncio
import random

import pytest

from turngate.agents.scheduler import AsReady, FixedOrder, Pace


class Engine:
    """Serves everyone who asked, one step per request, and writes down who that was."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.waiting, self.steps = pace, {}, []

    async def ask(self, name):
        self.waiting[name] = asyncio.get_running_loop().create_future()
        self.pace.in_engine += 1
        await self.waiting[name]

    async def run(self):
        while self.pace.slots:
            await self.pace.before_step()
            served, self.waiting = self.waiting, {}
            self.steps.append(sorted(served))
            for future in served.values():
                self.pace.in_engine -= 1
                future.set_result(None)

    async def slot(self, name, n_turns, answer):
        self.pace.slots += 1
        try:
            for number in range(n_turns):
                await self.pace.outside(answer(name, number))
                await self.ask(name)
        finally:
            self.pace.slots -= 1


def record(pace, turns, answer):
    """The steps of an engine with one slot per entry of ``turns``."""

    async def go():
        engine = Engine(pace)
        concurrency = [asyncio.create_task(engine.slot(name, n, answer)) for name, n in turns.items()]
        await asyncio.sleep(0)
        await asyncio.gather(engine.run(), *concurrency)
        return engine.steps

    return asyncio.run(asyncio.wait_for(go(), 20))


def answers_after(seed, most_s):
    rng = random.Random(seed)

    async def answer(name, number):
        await asyncio.sleep(rng.random() * most_s)

    return answer


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_fixed_order_does_not_depend_on_when_environments_answer(lag):
    turns = {"a": 5, "b": 3, "c": 4, "d": 1}
    fast, slow, odd = (
        record(FixedOrder(lag), turns, answers_after(seed, most_s)) for seed, most_s in ((0, 0), (1, 0.004), (2, 0.004))
    )
    assert fast == slow == odd
    assert sum(map(len, fast)) == 13


def test_a_lane_rejoins_lag_steps_later():
    assert record(FixedOrder(2), {"a": 2}, answers_after(0, 0)) == [[], [], ["a"], [], [], ["a"], []]
    # b is in the engine from another time on, so a's absence costs it nothing
    pace = FixedOrder(1)

    async def go():
        engine = Engine(pace)

        async def late():
            pace.slots += 1
            for _ in range(5):
                await engine.ask("b")
            pace.slots -= 1

        concurrency = [asyncio.create_task(late()), asyncio.create_task(engine.slot("a", 2, answers_after(0, 0)))]
        await asyncio.sleep(0)
        await asyncio.gather(engine.run(), *concurrency)
        return engine.steps

    assert asyncio.run(asyncio.wait_for(go(), 20))[:5] == [["b"], ["a", "b"], ["b"], ["a", "b"], ["b"]]


def test_as_ready_lets_the_fast_go_on():
    gate = {}

    async def answer(name, number):
        if name == "slow":
            await gate.setdefault("open", asyncio.Event()).wait()
        elif number == 9:
            gate.setdefault("open", asyncio.Event()).set()

    steps = [step for step in record(AsReady(), {"slow": 1, "fast": 10}, answer) if step]
    assert steps[:9] == [["fast"]] * 9
    assert sorted(name for step in steps for name in step) == ["fast"] * 10 + ["slow"]


def test_an_error_outside_reaches_the_lane():
    async def broken():
        raise OSError("no disk")

    async def go(pace):
        pace.slots = 1
        outside = asyncio.create_task(pace.outside(broken()))
        await asyncio.sleep(0)
        for _ in range(3):
            stepped = asyncio.create_task(pace.before_step())
            await asyncio.wait([stepped, outside], return_when=asyncio.FIRST_COMPLETED)
            if outside.done():
                stepped.cancel()
                break
        await outside

    for pace in (AsReady(), FixedOrder()):
        with pytest.raises(OSError, match="no disk"):
            asyncio.run(asyncio.wait_for(go(pace), 20))


def test_a_cancelled_lane_is_not_counted_for_another():
    async def go():
        pace = FixedOrder(lag=9)
        pace.slots = 2
        never = asyncio.create_task(pace.outside(asyncio.Event().wait()))
        await asyncio.sleep(0)
        never.cancel()
        await asyncio.wait([never])
        assert never.cancelled()
        pace.slots = 1
        step = asyncio.create_task(pace.before_step())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not step.done()  # the other slot is neither in the engine nor outside
        pace.in_engine = 1
        await step

    asyncio.run(asyncio.wait_for(go(), 20))


def test_a_lane_that_is_cancelled_while_the_engine_waits_for_it_stops_nobody():
    async def go():
        pace = FixedOrder(0)
        pace.slots = 1
        never = asyncio.create_task(pace.outside(asyncio.Event().wait()))
        await asyncio.sleep(0)
        step = asyncio.create_task(pace.before_step())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not step.done()
        pace.slots = 0
        never.cancel()
        await step

    asyncio.run(asyncio.wait_for(go(), 20))
