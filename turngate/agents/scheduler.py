"""When a decoding engine takes its next step, and when an episode rejoins the batch after its environment has answered.

A *slot* plays one episode after another. At any moment it waits either in the engine (its request is queued or being
decoded) or outside (its environment steps in another thread); it is then *parked*. The engine calls ``before_step``
before each decode step.

``AsReady`` lets an episode rejoin as soon as its environment has answered. This is fastest, but which episodes share a
batch then depends on thread timing, and so do the last bits of the logits.

``FixedOrder`` lets an episode rejoin a fixed number of decode steps after it left, in the order of leaving. The others
decode meanwhile, so environments and model still work at the same time; the engine waits only for an environment that
takes longer than that many decode steps. Which episodes share a batch then depends on nothing but the seed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Pace(ABC):
    """Decides when slots rejoin the engine. ``slots``: how many there are; ``in_engine``: how many wait in the
    engine."""

    def __init__(self) -> None:
        self.slots = 0
        self.in_engine = 0

    @abstractmethod
    async def outside(self, call: Awaitable[T]) -> T:
        """Await ``call``, a call to the environment; returns its result when the slot may rejoin the engine."""

    @abstractmethod
    async def before_step(self) -> None:
        """Return when the next decode step may be taken."""


class AsReady(Pace):
    """An episode rejoins as soon as its environment has answered."""

    async def outside(self, call: Awaitable[T]) -> T:
        """Wait for the call and go on."""
        return await call

    async def before_step(self) -> None:
        """Let slots whose environment has answered submit their requests; if the engine has none, wait for the
        first."""
        await asyncio.sleep(0)
        while self.slots and not self.in_engine:
            await asyncio.sleep(0.0002)


class FixedOrder(Pace):
    """An episode rejoins exactly ``lag`` decode steps after it left, in the order of leaving."""

    def __init__(self, lag: int = 1) -> None:
        super().__init__()
        self._lag, self._step = lag, 0
        self._away: list[tuple[int, asyncio.Future[Any], asyncio.Future[None]]] = []

    async def outside(self, call: Awaitable[T]) -> T:
        """Wait for the call and then for this slot's turn to rejoin."""
        task = asyncio.ensure_future(call)
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (self._step + self._lag + 1, task, released)
        self._away.append(place)
        try:
            await released
        except asyncio.CancelledError:
            task.cancel()
            if place in self._away:
                self._away.remove(place)
            raise
        return await task

    async def before_step(self) -> None:
        """Let the slots rejoin that are due, and wait until every slot is parked again."""
        await asyncio.sleep(0)  # so that deadlines and cancellations take effect between any two steps
        await self._parked()
        self._step += 1
        while self._away and self._away[0][0] <= self._step:
            _, task, released = self._away.pop(0)
            await asyncio.wait([task])
            if not released.done():  # a cancelled slot no longer waits
                released.set_result(None)
            await self._parked()

    async def _parked(self) -> None:
        """Let the released slot run until it waits in the engine or outside again, before the next one is released."""
        while self.in_engine + len(self._away) < self.slots:
            await asyncio.sleep(0)
