"""The event loop of a run. It ends when the run ends, even if an examiner or environment is still waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from turngate.envs.own_folder import part_from_process
from turngate.errors import RunError
from turngate.foreign import described, is_own, place_of
from turngate.run.process.signals import stopping_task

T = TypeVar("T")
P = ParamSpec("P")

GRACE_S = 5.0
"""How long tasks may take to stop when the run is over."""


class DaemonThreads(ThreadPoolExecutor):
    """An executor with one daemon thread per call, so that a call that hangs does not keep the process alive.

    Python's own executor has few threads and waits for all of them when a program ends. One call that hangs, in
    ``asyncio.to_thread`` of an examiner, would keep the run from ending, and several would leave no thread for others.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call ``fn`` in a new thread at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            part_from_process()  # code of users may call os.chdir
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # raised where the result is awaited
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name=f"turngate {fn!r:.60}").start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do not wait for calls that are still running."""


def run_to_end(work: Coroutine[None, None, T]) -> T:
    """Run ``work`` as ``asyncio.run`` does, but wait at most ``GRACE_S`` for tasks that are left when it is over.

    Raises Stopped if a signal ended it (see ``stopping_task``), and RunError if foreign code tried to end the program.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_default_executor(DaemonThreads())
    try:
        return runner.run(_stoppable(work))
    except BaseException as error:
        if isinstance(error, Exception) or not is_own(error):
            raise
        does = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"raised {described(error)}"
        who = f"code of the run, or of a part that it uses, {does} in {place_of(error)}"
        raise RunError(f"{who}; raise an error instead, so that the run can say what is wrong") from error
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        stuck = loop.run_until_complete(asyncio.wait(rest, timeout=GRACE_S))[1] if rest else set()
        if stuck:  # runner.close() would wait for them for ever
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()
        else:
            runner.close()


async def _stoppable(work: Coroutine[None, None, T]) -> T:
    with stopping_task():
        return await work
