"""The event loop of a run, which ends when the run does, whatever somebody else's code still waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from turngate.run.stopping import stopping_task

T = TypeVar("T")
P = ParamSpec("P")

GRACE_S = 5.0
"""How long tasks may take to stop when the run is over."""


class DaemonThreads(ThreadPoolExecutor):
    """A thread per call that does not keep the process alive.

    The threads of Python's own executor are waited for when a program ends, and there are few of them: one call that
    hangs, in ``asyncio.to_thread`` of an examiner, would keep a run from ending, and several would stop all others.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # for whoever waits
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name=f"turngate {fn!r:.60}").start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nobody."""


def run_to_end(work: Coroutine[None, None, T]) -> T:
    """What ``work`` returns or raises, as ``asyncio.run``; what refuses to stop after it is left behind.

    Raises Stopped if a signal ended it (see ``stopping_task``).
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_default_executor(DaemonThreads())
    try:
        return runner.run(_stoppable(work))
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        stuck = loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_S))[1] if rest else set()
        if stuck:  # the runner would wait for them
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()
        else:
            runner.close()


async def _stoppable(work: Coroutine[None, None, T]) -> T:
    with stopping_task():
        return await work
