"""Many synchronous environments, driven from one event loop, each at its own speed.

Every environment lives on one worker thread for its whole life (a browser's objects belong to the thread that made
them) and is used again for the next episode. A call is handed back as soon as it is ready: no barrier between turns.

``isolation="thread"`` suits environments that keep their own deadlines. ``isolation="process"`` puts each one into a
process of its own (``process.py``), so code that hangs or crashes can be killed with everything it started.

What happens to a call:

* it returns: the caller gets the result;
* it raises one of our errors: passed on as it is. Anything else: EnvError with the original as its cause. After an
  error that is not the caller's own, the environment is closed and built anew for the next episode;
* it takes longer than its deadline, or its process dies: AgentFault in ``step`` and ``finish``, where an action of the
  agent can be the cause, EnvError in ``reset``; the worker is abandoned, counted in ``lost_workers`` and replaced.

An abandoned process is killed. An abandoned thread goes on until its call ends, perhaps never, so there is a bound:
when as many threads hang as the pool may have environments (at least ``LEAST_STUCK``), ``lease`` raises RunError. All
are daemons, so none of them keeps the program from ending.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Literal, Self, TypeAlias

from turngate.envs.base import TurnEnv
from turngate.envs.process import ProcessEnv, as_env_error, broken, pickled
from turngate.errors import ConfigError, EnvError, RunError, UserError
from turngate.types import Action, Ending, Info, Observation, Task

MakeEnv: TypeAlias = Callable[[], TurnEnv]

OPEN_DEADLINE_S = 300.0  # building an environment may start a browser or a container
CALLS_PER_STEP = 2  # the last step acts and verifies, each for at most the declared deadline
MARGIN_S = 5.0  # the environment's own deadline must fire first: it ends one action, ours ends the environment
LEAST_STUCK = 4
"""So many threads may hang in any pool, also in a smaller one, before it gives up."""

_log = logging.getLogger(__name__)
_numbers = count()


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: asyncio.Future[Any]


class _News:
    """From the workers to the event loop. Waking the loop is the dear part of a call, so one wake serves all news."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._waking = loop, False
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def post(self, hear: Callable[..., None], *news: Any) -> None:
        """Have the loop call ``hear(*news)``; from any thread."""
        self._queue.append((hear, news))
        if not self._waking:
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False  # before reading: what comes later wakes the loop again, so nothing is left behind
        while self._queue:
            hear, news = self._queue.popleft()
            hear(*news)


class _Worker(threading.Thread):
    """One thread and its environment. ``call``, ``timer`` and the flags belong to the event loop's thread."""

    def __init__(self, pool: EnvPool, build: Callable[[], TurnEnv | ProcessEnv], news: _News) -> None:
        super().__init__(name=f"turngate-env-{next(_numbers)}", daemon=True)
        self._pool, self._build, self._news = pool, build, news
        self._env: TurnEnv | ProcessEnv | None = None
        self.inbox: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.declared_s: float | None = None  # None until an environment is built
        self.call: _Call | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.leased = self.lost = False

    def run(self) -> None:
        """Serve calls until None comes; then close the environment."""
        while (call := self.inbox.get()) is not None:
            start_s = time.perf_counter()
            result, error = self._serve(call)
            self._news.post(self._pool.settle, self, result, error, time.perf_counter() - start_s)
            if error is not None and not isinstance(error, UserError):
                self._drop()
        self._drop()
        self._news.post(self._pool.gone, self)

    def kill(self) -> None:
        """End the environment's process at once; a thread cannot be ended."""
        env = self._env
        if isinstance(env, ProcessEnv):
            env.kill()

    def _serve(self, call: _Call) -> tuple[Any, Exception | None]:
        try:
            env = self._env or self._open()
            return getattr(env, call.method)(*call.args, **call.kwargs), None
        except BaseException as error:  # also SystemExit: the thread must live, or the caller waits for ever
            return None, as_env_error(error, call.method)

    def _open(self) -> TurnEnv | ProcessEnv:
        self._env = env = self._build()
        if isinstance(env, ProcessEnv):
            if self.lost:  # the deadline passed while the process was being started
                env.kill()
            self.declared_s = env.open()
        else:
            self.declared_s = env.turn_spec.deadline_s
        return env

    def _drop(self) -> None:
        try:
            if self._env is not None:
                self._env.close()
        except BaseException as error:  # also SystemExit: the thread has yet to say that it is gone
            _log.warning("an environment could not be closed, and what it held may be left: %r", error)
        self._env = self.declared_s = None


class LeasedEnv:
    """One environment for the length of one lease; one call at a time."""

    def __init__(self, pool: EnvPool, worker: _Worker) -> None:
        self._pool, self._worker = pool, worker

    async def reset(self, task: Task | str | None = None, seed: int | None = None) -> tuple[Observation, Info]:
        """Begin an episode of ``task`` (a Task, an id, or None: the seed chooses)."""
        options = {} if task is None else {"task": task}
        result: tuple[Observation, Info] = await self._pool.call(self._worker, "reset", seed=seed, options=options)
        return result

    async def step(self, action: Action | str) -> tuple[Observation, float, bool, bool, Info]:
        """One turn: observation, reward, terminated, truncated, info."""
        result: tuple[Observation, float, bool, bool, Info]
        result = await self._pool.call(self._worker, "step", action)
        return result

    async def finish(self, ending: Ending) -> tuple[float, Info]:
        """Cut the episode short: the rest of the reward, and info."""
        result: tuple[float, Info] = await self._pool.call(self._worker, "finish", ending)
        return result


class EnvPool:
    """At most ``size`` environments at once. Use it inside one event loop, and close it or use ``async with``.

    ``make_env`` runs once per worker, when the worker's first episode begins; with ``isolation="process"`` it must be
    picklable, for instance ``functools.partial(turngate.make, "turngate/Sql-v1")``. ``deadline_s`` bounds every call;
    None takes it from what the environment declares. ``close_s`` is how long ``close`` waits for calls under way.

    Accounts: ``resets``, ``calls``, ``lost_workers``, and ``env_time_s``, the time spent inside calls, summed over
    workers (so it may exceed the wall time).
    """

    def __init__(
        self,
        make_env: MakeEnv,
        *,
        size: int,
        isolation: Literal["thread", "process"] = "thread",
        deadline_s: float | None = None,
        close_s: float = 10.0,
    ) -> None:
        if size < 1:
            raise ConfigError(f"size is {size}; a pool needs at least 1 environment")
        if isolation not in ("thread", "process"):
            raise ConfigError(f"isolation is '{isolation}'; use 'thread' or 'process'")
        self.size, self.isolation, self.deadline_s, self.close_s = size, isolation, deadline_s, close_s
        self.resets = self.calls = self.lost_workers = 0
        self.env_time_s = 0.0
        self._build: Callable[[], TurnEnv | ProcessEnv] = make_env
        if isolation == "process":
            self._build = partial(ProcessEnv, pickled(make_env))
        self._slots = asyncio.Semaphore(size)
        self._news: _News | None = None
        self._idle: list[_Worker] = []
        self._alive: set[_Worker] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @asynccontextmanager
    async def lease(self, task: Task | None = None) -> AsyncIterator[LeasedEnv]:
        """Borrow an environment; waits while all are in use.

        Raises EnvError once the pool is closed, RunError when too many of its threads hang.
        Every environment here plays any ``task``; see ``EnvPools`` for several kinds.
        """
        await self._slots.acquire()
        if self._closed:
            self._slots.release()  # wakes the next one who waits, so that nobody waits for ever
            raise EnvError("the pool is closed")
        try:
            worker = self._idle.pop() if self._idle else self._hire()
        except RunError:
            self._slots.release()
            raise
        worker.leased = True
        try:
            yield LeasedEnv(self, worker)
        finally:
            worker.leased = False
            self._release(worker)

    def free(self, task: Task | None = None) -> bool:
        """Whether ``lease`` would not wait."""
        return not self._slots.locked()

    async def call(self, worker: _Worker, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run one method of the worker's environment on the worker's thread. For ``LeasedEnv``."""
        if self._closed:
            raise EnvError(f"the pool was closed before '{method}'")
        if worker.lost:
            raise EnvError(f"the environment was lost to a deadline before '{method}'; lease another one")
        if worker.call is not None or not worker.leased:
            raise RuntimeError(f"'{method}' on an environment that is {'busy' if worker.leased else 'given back'}")
        loop = asyncio.get_running_loop()
        self.calls += 1
        self.resets += method == "reset"
        worker.call = call = _Call(method, args, kwargs, loop.create_future())
        worker.timer = loop.call_later(self._deadline(worker), self._lose, worker)
        worker.inbox.put(call)
        return await call.future

    async def close(self) -> None:
        """End every call, close every environment, and leave no thread or process behind. Safe to repeat.

        Calls under way raise EnvError at once; their workers get ``close_s`` to come back and close. A process that
        does not is killed. A thread that does not cannot be: it is named in a warning and ends with the interpreter.
        """
        self._closed = True
        for worker in self._alive:
            if worker.call is not None:
                self._fail(worker, EnvError(f"the pool was closed during '{worker.call.method}'"))
            worker.inbox.put(None)
        self._idle.clear()
        await self._wait_for_exits(lambda worker: not worker.lost)  # a lost thread comes back when it likes, or never
        for worker in self._alive:
            self.lost_workers += not worker.lost
            worker.lost = True
            worker.kill()
        if self.isolation == "process":
            await self._wait_for_exits(lambda worker: True)
        if self._alive:
            names = ", ".join(sorted(worker.name for worker in self._alive))
            _log.warning("%d environment threads are stuck in a call and were left: %s", len(self._alive), names)

    # --- workers; all of this runs in the event loop's thread ---------------------------------------------------------

    def _hire(self) -> _Worker:
        stuck = sum(worker.lost for worker in self._alive) if self.isolation == "thread" else 0
        if stuck >= max(self.size, LEAST_STUCK):
            raise RunError(
                f"{stuck} threads hang in environments that passed their deadline, and a thread cannot be ended; "
                'set env.isolation = "process", so that an environment that hangs is killed'
            )
        if self._news is None:
            self._news = _News(asyncio.get_running_loop())
        worker = _Worker(self, self._build, self._news)
        self._alive.add(worker)
        worker.start()
        return worker

    def _deadline(self, worker: _Worker) -> float:
        if self.deadline_s is not None:
            return self.deadline_s
        if worker.declared_s is None:
            return OPEN_DEADLINE_S
        return CALLS_PER_STEP * worker.declared_s + MARGIN_S

    def settle(self, worker: _Worker, result: object, error: Exception | None, elapsed_s: float) -> None:
        """A worker came back from a call. For ``_Worker``."""
        self.env_time_s += elapsed_s
        if worker.lost or worker.call is None:
            return  # too late: the caller was told
        future = worker.call.future
        if not future.done():  # a cancelled caller does not listen any more
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._end_call(worker)

    def _lose(self, worker: _Worker) -> None:
        """The deadline passed: tell the caller, and never use this worker again."""
        worker.lost = True
        self.lost_workers += 1
        if worker.call is not None:
            method = worker.call.method
            problem = f"'{method}' of the environment took longer than {self._deadline(worker):g} s"
            self._fail(worker, broken(method, problem))
        worker.kill()
        worker.inbox.put(None)
        self._end_call(worker)

    @staticmethod
    def _fail(worker: _Worker, error: Exception) -> None:
        if worker.call is not None and not worker.call.future.done():
            worker.call.future.set_exception(error)

    def _end_call(self, worker: _Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
        worker.call = worker.timer = None
        self._release(worker)

    def _release(self, worker: _Worker) -> None:
        """Free the slot when both are true: the lease is over, and no call of it (a cancelled one) is under way."""
        if worker.leased or worker.call is not None:
            return
        if not worker.lost and not self._closed:
            self._idle.append(worker)
        self._slots.release()

    def gone(self, worker: _Worker) -> None:
        """A worker's last message: its environment is closed, its thread about to end. For ``_Worker``."""
        worker.join()
        self._alive.discard(worker)

    async def _wait_for_exits(self, of: Callable[[_Worker], bool]) -> None:
        end_s = time.monotonic() + self.close_s
        while any(map(of, self._alive)) and time.monotonic() < end_s:
            await asyncio.sleep(0.002)
