"""``PacedPolicy``: what policies share whose engine takes one step at a time for everybody who waits in it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from turngate.agents.pace import AsReady, FixedOrder, Pace
from turngate.agents.policies.base import Policy

T = TypeVar("T")


class PacedPolicy(Policy):
    """An engine with ``lanes`` lanes, which is at work as long as one of them is open. ``order``: see
    ``turngate.agents.pace``."""

    def __init__(self, *, lanes: int, order: str) -> None:
        self.lanes, self.version = lanes, 0
        self._pace: Pace = FixedOrder() if order == "fixed" else AsReady()
        self._working: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(lanes)

    @abstractmethod
    async def _run(self) -> None:
        """Take steps until no lane is open."""

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[None]:
        """A lane is open: the engine works as long as one is. Waits while all are taken, also by other calls."""
        async with self._room:
            self._pace.lanes += 1
            if self._working is None or self._working.done():
                self._working = asyncio.get_running_loop().create_task(self._run())
            try:
                yield
            finally:
                self._pace.lanes -= 1
                if not self._pace.lanes:
                    await self._working

    async def outside(self, call: Awaitable[T]) -> T:
        return await self._pace.outside(call)

    def _need_lane(self) -> None:
        """Raise RuntimeError for a request without a lane, which would wait for ever."""
        if not self._pace.lanes:
            raise RuntimeError("no lane is open, so nothing would be decoded; use 'async with policy.lane()'")
