"""When an engine takes its next decode step, and when an episode that was away comes back.

Every lane is *parked* either in the engine (its request waits or is being decoded) or outside (its environment steps in
another thread). The engine calls ``before_step`` ahead of each decode step.

``AsReady`` lets episodes rejoin as soon as their environment has answered: fastest, but which episodes share a batch
then depends on thread timing, and so do the last bits of the logits.

``FixedOrder`` lets an episode rejoin a fixed number of decode steps after it left, in the order of leaving. The others
decode meanwhile, so environments still overlap with the model and no turn waits for all others; only an environment
that is slower than that many decode steps is waited for. Batches then depend on nothing but the seed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Pace(ABC):
    """Counts lanes and lets them rejoin."""

    def __init__(self) -> None:
        self.lanes = 0
        self.in_engine = 0

    @abstractmethod
    async def outside(self, call: Awaitable[T]) -> T:
        """Run ``call`` outside the engine; returns when the lane may go on."""

    @abstractmethod
    async def before_step(self) -> None:
        """Return when the next decode step may be taken."""


class AsReady(Pace):
    """Rejoin at once."""

    async def outside(self, call: Awaitable[T]) -> T:
        """Wait for the call and go on."""
        return await call

    async def before_step(self) -> None:
        """Let answered lanes hand in their requests; if nobody has any, wait for the first."""
        await asyncio.sleep(0)
        while self.lanes and not self.in_engine:
            await asyncio.sleep(0.0002)


class FixedOrder(Pace):
    """Rejoin exactly ``lag`` decode steps later, in the order of leaving."""

    def __init__(self, lag: int = 1) -> None:
        super().__init__()
        self._lag, self._step = lag, 0
        self._away: list[tuple[int, asyncio.Future[Any], asyncio.Future[None]]] = []

    async def outside(self, call: Awaitable[T]) -> T:
        """Wait for the call and then for this lane's turn to rejoin."""
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
        """Let those rejoin whose time has come, and wait until every lane is parked again."""
        await asyncio.sleep(0)  # deadlines and cancellations are heard between any two steps
        await self._parked()
        self._step += 1
        while self._away and self._away[0][0] <= self._step:
            _, task, released = self._away.pop(0)
            await asyncio.wait([task])
            if not released.done():  # a cancelled lane no longer waits
                released.set_result(None)
            await self._parked()

    async def _parked(self) -> None:
        """Let the released lane run until it is in the engine or outside again, before the next one moves."""
        while self.in_engine + len(self._away) < self.lanes:
            await asyncio.sleep(0)
