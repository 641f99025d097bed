"""A pool of synchronous environments that one event loop runs side by side, each at its own speed.

Every environment belongs to one worker thread from its construction to its end (a browser's objects can be used only by
the thread that made them) and is used again for the next episode. The caller gets each result as soon as it is ready;
no environment waits for the others.

``isolation="thread"`` suits environments that enforce their own deadlines. ``isolation="process"`` puts each one into a
process of its own (``process.py``), so that code that hangs or crashes can be killed with everything it started.

What happens to a call:

* it returns: the caller gets the result;
* it raises an error of turngate: the caller gets that error. Any other exception becomes an EnvError with the original
  as its cause. After an error that is not the caller's own (UserError), the environment is closed, and built anew for
  the next episode;
* it takes longer than its deadline, or its process dies: AgentFault in ``step`` and ``finish``, where an action of the
  agent can be the cause, EnvError in the others; the worker is abandoned, counted in ``lost_workers`` and replaced.

An abandoned process is killed. An abandoned thread cannot be killed and runs until its call ends, perhaps for ever. So
there is a bound: when as many threads hang as the pool may have environments (at least ``LEAST_STUCK``), ``lease``
raises RunError. Worker threads are daemons, so none of them keeps the program from ending.
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
MARGIN_S = 5.0  # the environment's own deadline must pass first: it ends one action, the pool's ends the environment
LEAST_STUCK = 4
"""A pool of any size goes on until at least this many of its threads hang."""

_log = logging.getLogger(__name__)
_numbers = count()


@dataclass(frozen=True, slots=True)
class _Call:
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: asyncio.Future[Any]


class _News:
    """A queue of messages from the workers to the event loop.

    Waking the loop is the expensive part of a call, so one wake-up delivers all messages that have come by then.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._waking = loop, False
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def post(self, hear: Callable[..., None], *news: Any) -> None:
        """Have the event loop call ``hear(*news)``. Can be called from any thread."""
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
    """One thread and its environment. ``call``, ``timer`` and the flags are used by the event loop's thread only."""

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
        """Carry out calls until the inbox gives None; then close the environment."""
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
            _log.warning("an environment could not be closed; processes or files of it may be left behind: %r", error)
        self._env = self.declared_s = None


class LeasedEnv:
    """An environment that is borrowed from a pool; make one call at a time."""

    def __init__(self, pool: EnvPool, worker: _Worker) -> None:
        self._pool, self._worker = pool, worker

    async def reset(
        self, task: Task | str | None = None, seed: int | None = None, notation: str = ""
    ) -> tuple[Observation, Info]:
        """Begin an episode of ``task`` (a Task, an id, or None: the seed chooses); see ``TurnEnv.reset``."""
        options = {name: value for name, value in (("task", task), ("notation", notation)) if value}
        result: tuple[Observation, Info] = await self._pool.call(self._worker, "reset", seed=seed, options=options)
        return result

    async def step(self, action: Action | str) -> tuple[Observation, float, bool, bool, Info]:
        """One turn: observation, reward, terminated, truncated, info."""
        result: tuple[Observation, float, bool, bool, Info]
        result = await self._pool.call(self._worker, "step", action)
        return result

    async def finish(self, ending: Ending) -> tuple[float, Info]:
        """End the episode now: the rest of the reward, and info."""
        result: tuple[float, Info] = await self._pool.call(self._worker, "finish", ending)
        return result

    async def snapshot(self) -> object:
        """The running episode at this moment; see ``TurnEnv.snapshot``."""
        result: object = await self._pool.call(self._worker, "snapshot")
        return result

    async def restore(self, snapshot: object) -> None:
        """Continue from a snapshot, also of another environment of the pool; see ``TurnEnv.restore``."""
        await self._pool.call(self._worker, "restore", snapshot)


class EnvPool:
    """At most ``size`` environments at once. Use it inside one event loop, and close it or use ``async with``.

    ``make_env`` runs once per worker, when the worker's first episode begins; with ``isolation="process"`` it must be
    picklable, for instance ``functools.partial(turngate.make, "turngate/Sql-v1")``. ``deadline_s`` bounds every call;
    None takes it from what the environment declares. ``close_s`` is how long ``close`` waits for calls under way.

    It counts ``resets``, ``calls`` and ``lost_workers`` (abandoned ones), and sums up ``env_time_s``, the time spent
    inside calls of all workers, which may exceed the wall time.
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

        ``task`` makes no difference here, because every environment of the pool can play it; ``EnvPools`` has several
        kinds. Raises EnvError once the pool is closed, RunError when too many of its threads hang.
        """
        await self._slots.acquire()
        if self._closed:
            self._slots.release()  # wakes the next one who waits, so that nobody waits for ever
            raise EnvError("the environment pool is closed; open a new one")
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
        """Whether ``lease`` would return at once."""
        return not self._slots.locked()

    async def call(self, worker: _Worker, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run one method of the worker's environment on the worker's thread. For ``LeasedEnv``."""
        if self._closed:
            raise EnvError(f"the pool was closed before '{method}'")
        if worker.lost:
            raise EnvError(
                f"the environment passed its deadline before '{method}' and was abandoned; lease another one"
            )
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

        Running calls raise EnvError at once; their workers have ``close_s`` to finish and close. A process that does
        not is killed. A thread that does not cannot be killed: a warning names it, and it ends with the interpreter.
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
        """Take the result of a worker's call. Called for ``_Worker`` in the event loop."""
        self.env_time_s += elapsed_s
        if worker.lost or worker.call is None:
            return  # too late: the caller has got an error already
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
        """Free the slot once the lease is over and no call of it, such as a cancelled one, is still running."""
        if worker.leased or worker.call is not None:
            return
        if not worker.lost and not self._closed:
            self._idle.append(worker)
        self._slots.release()

    def gone(self, worker: _Worker) -> None:
        """Take a worker's last message: its environment is closed and its thread about to end."""
        worker.join()
        self._alive.discard(worker)

    async def _wait_for_exits(self, of: Callable[[_Worker], bool]) -> None:
        end_s = time.monotonic() + self.close_s
        while any(map(of, self._alive)) and time.monotonic() < end_s:
            await asyncio.sleep(0.002)
