"""An event loop in a thread of its own, for callers that cannot await."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any other thread. It ends with ``close``, or when it is no longer referenced."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_live, args=(self._loop,), name=name, daemon=True)
        self._thread.start()
        weakref.finalize(self, _stop, self._loop)

    def run(self, work: Coroutine[object, object, T]) -> T:
        """The result or error of ``work``, which bounds its own time."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End the thread; tasks that still run in it are cancelled. Safe to repeat."""
        _stop(self._loop)
        self._thread.join()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # it is closed
        loop.call_soon_threadsafe(loop.stop)


def _live(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.close()
