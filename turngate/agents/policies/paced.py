"""``PacedPolicy``: base of policies whose engine takes one step at a time for all turns in flight."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from turngate.agents.policies.base import Policy
from turngate.agents.scheduler import AsReady, FixedOrder, Pace

T = TypeVar("T")


class PacedPolicy(Policy):
    """An engine with ``concurrency`` slots, which is at work as long as one of them is open. ``order``: see
    ``turngate.agents.scheduler``."""

    def __init__(self, *, concurrency: int, order: str) -> None:
        self.concurrency, self.version = concurrency, 0
        self._pace: Pace = FixedOrder() if order == "fixed" else AsReady()
        self._working: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(concurrency)

    @abstractmethod
    async def _run(self) -> None:
        """Take steps until no slot is open."""

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A slot is open: the engine works as long as one is. Waits while all are taken, also by other calls."""
        async with self._room:
            self._pace.slots += 1
            if self._working is None or self._working.done():
                self._working = asyncio.get_running_loop().create_task(self._run())
            try:
                yield
            finally:
                self._pace.slots -= 1
                if not self._pace.slots:
                    await self._working

    async def outside(self, call: Awaitable[T]) -> T:
        return await self._pace.outside(call)

    def _need_slot(self) -> None:
        """Raise RuntimeError for a request without a slot, which would wait for ever."""
        if not self._pace.slots:
            raise RuntimeError("no slot is open, so nothing would be decoded; use 'async with policy.slot()'")
