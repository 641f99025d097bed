"""A pool of synchronous environments that one event loop runs side by side, each at its own speed.

Every environment belongs to one thread from its construction to its end (a browser's objects can be used only by the
thread that made them) and is used again for the next episode. Environments that declare ``any_thread`` share threads
after their first call: one serves them all as long as their calls are quick (``threads.py``). The caller gets each
result as soon as it is ready; no environment waits for the others.

``isolation="thread"`` suits environments that enforce their own deadlines. ``isolation="process"`` puts each one into a
process of its own (``process.py``), so that code that hangs or crashes can be killed with everything it started.

What happens to a call:

* it returns: the caller gets the result;
* it raises an error of turngate: the caller gets that error. Any other exception becomes an EnvError with the original
  as its cause. After an error that is not the caller's own (UserError), the environment is closed, and built again for
  the next episode;
* it takes longer than its deadline, or its process dies: AgentFault in ``step`` and ``finish``, where an action of the
  agent can be the cause, EnvError in the others; the environment is abandoned, counted (``lost_workers``) and replaced.

An abandoned process is killed. An abandoned thread cannot be killed and runs until its call ends, perhaps for ever. So
there is a bound: when as many threads hang as the pool may have environments (at least ``LEAST_STUCK``), ``lease``
raises RunError. Worker threads are daemons, so none of them keeps the program from ending.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from typing import Any, Literal, Self, TypeAlias

from turngate.envs.base import TurnEnv
from turngate.envs.pool.process import ProcessEnv, broken, pickled
from turngate.envs.pool.slot import EnvCall, News, Slot
from turngate.envs.pool.threads import ThreadPool
from turngate.errors import ConfigError, EnvError, RunError
from turngate.types import Action, Ending, Info, Observation, Task

MakeEnv: TypeAlias = Callable[[], TurnEnv]

OPEN_DEADLINE_S = 300.0  # building an environment may start a browser or a container
CALLS_PER_STEP = 2  # the last step acts and verifies, each for at most the declared deadline
MARGIN_S = 5.0  # the environment's own deadline must pass first: it ends one action, the pool's ends the environment
LEAST_STUCK = 4
"""A pool of any size goes on until at least this many of its threads hang."""

_log = logging.getLogger(__name__)


class LeasedEnv:
    """An environment that is borrowed from a pool; make one call at a time."""

    def __init__(self, pool: EnvPool, slot: Slot) -> None:
        self._pool, self._slot = pool, slot

    async def reset(
        self, task: Task | str | None = None, seed: int | None = None, tool_format: str = ""
    ) -> tuple[Observation, Info]:
        """Begin an episode of ``task`` (a Task, an id, or None: the seed chooses); see ``TurnEnv.reset``."""
        options = {name: value for name, value in (("task", task), ("tool_format", tool_format)) if value}
        result: tuple[Observation, Info] = await self._pool.call(self._slot, "reset", seed=seed, options=options)
        return result

    async def step(self, action: Action | str) -> tuple[Observation, float, bool, bool, Info]:
        """One turn: observation, reward, terminated, truncated, info."""
        result: tuple[Observation, float, bool, bool, Info]
        result = await self._pool.call(self._slot, "step", action)
        return result

    async def finish(self, ending: Ending) -> tuple[float, Info]:
        """End the episode now: the rest of the reward, and info."""
        result: tuple[float, Info] = await self._pool.call(self._slot, "finish", ending)
        return result

    async def snapshot(self) -> object:
        """The running episode at this moment; see ``TurnEnv.snapshot``."""
        result: object = await self._pool.call(self._slot, "snapshot")
        return result

    async def restore(self, snapshot: object) -> None:
        """Continue from a snapshot, also of another environment of the pool; see ``TurnEnv.restore``."""
        await self._pool.call(self._slot, "restore", snapshot)


class EnvPool:
    """At most ``size`` environments at once. Use it inside one event loop, and close it or use ``async with``.

    ``make_env`` runs once per environment, when its first episode begins; with ``isolation="process"`` it must be
    picklable, for instance ``functools.partial(turngate.make, "turngate/Sql-v1")``. ``deadline_s`` bounds every call;
    None takes it from what the environment declares. ``close_s`` is how long ``close`` waits for calls under way.

    It counts ``resets``, ``calls`` and ``lost_workers`` (abandoned environments), and sums up ``env_time_s``, the time
    spent inside calls of all of them, which may exceed the wall time.
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
        self._news: News | None = None
        self._threads: ThreadPool | None = None
        self._idle: list[Slot] = []
        self._alive: set[Slot] = set()
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
            self._slots.release()  # wakes the next caller that waits, so that none waits for ever
            raise EnvError("the environment pool is closed; open a new one")
        try:
            slot = self._idle.pop() if self._idle else self._hire()
        except RunError:
            self._slots.release()
            raise
        slot.leased = True
        try:
            yield LeasedEnv(self, slot)
        finally:
            slot.leased = False
            self._release(slot)

    def free(self, task: Task | None = None) -> bool:
        """Whether ``lease`` would return at once."""
        return not self._slots.locked()

    async def call(self, slot: Slot, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run one method of a slot's environment in a thread. For ``LeasedEnv``."""
        if self._closed:
            raise EnvError(f"the pool was closed before '{method}'")
        if slot.lost:
            raise EnvError(
                f"the environment passed its deadline before '{method}' and was abandoned; lease another one"
            )
        if slot.call is not None or not slot.leased:
            raise RuntimeError(f"'{method}' on an environment that is {'busy' if slot.leased else 'given back'}")
        loop = asyncio.get_running_loop()
        self.calls += 1
        self.resets += method == "reset"
        slot.call = call = EnvCall(method, methodcaller(method, *args, **kwargs), loop.create_future())
        slot.timer = loop.call_later(self._deadline(slot), self._lose, slot)
        slot.put(call)
        return await call.future

    async def close(self) -> None:
        """End every call, close every environment, and leave no thread or process behind. Safe to repeat.

        Running calls raise EnvError at once; their environments have ``close_s`` to finish and close. A process that
        does not is killed. A thread that does not cannot be killed: a warning names it, and it ends with the
        interpreter.
        """
        self._closed = True
        for slot in self._alive:
            if slot.call is not None:
                self._fail(slot, EnvError(f"the pool was closed during '{slot.call.method}'"))
            slot.put(None)
        self._idle.clear()
        await self._wait_for_exits(lambda slot: not slot.lost)  # a lost thread may end at any time, or never
        for slot in self._alive:
            self.lost_workers += not slot.lost
            slot.lost = True
            slot.kill()
        if self.isolation == "process":
            await self._wait_for_exits(lambda slot: True)
        left = {slot.thread for slot in self._alive}
        for thread in self._threads.end() if self._threads else ():
            if thread not in left:
                thread.join()
        if self._alive:
            names = ", ".join(sorted(slot.thread.name for slot in self._alive if slot.thread))
            _log.warning("%d environment threads are stuck in a call and were left: %s", len(self._alive), names)

    # --- slots; all of this runs in the event loop's thread ---------------------------------------------------------

    def _hire(self) -> Slot:
        stuck = sum(slot.lost for slot in self._alive) if self.isolation == "thread" else 0
        if stuck >= max(self.size, LEAST_STUCK):
            raise RunError(
                f"{stuck} threads hang in environments that passed their deadline, and a thread cannot be ended; "
                'set env.isolation = "process", so that an environment that hangs is killed'
            )
        if self._news is None:
            self._news = News(asyncio.get_running_loop())
            self._threads = ThreadPool(self.size, self._news.tell)
        slot = Slot(self, self._build, self._news)
        self._alive.add(slot)
        return slot

    def _deadline(self, slot: Slot) -> float:
        if self.deadline_s is not None:
            return self.deadline_s
        if slot.declared_s is None:
            return OPEN_DEADLINE_S
        return CALLS_PER_STEP * slot.declared_s + MARGIN_S

    def settle(self, slot: Slot, result: object, error: Exception | None, elapsed_s: float) -> None:
        """Take the result of a slot's call. For ``Slot``."""
        self.env_time_s += elapsed_s
        if slot.any_thread and self._threads is not None:
            slot.share(self._threads)
        if slot.lost or slot.call is None:
            return  # too late: the caller has got an error already
        future = slot.call.future
        if not future.done():  # a cancelled caller does not listen any more
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._end_call(slot)

    def _lose(self, slot: Slot) -> None:
        """The deadline passed: tell the caller, and never use this slot again."""
        slot.lost = True
        self.lost_workers += 1
        if slot.any_thread and self._threads is not None:
            self._threads.widen()
        if slot.call is not None:
            method = slot.call.method
            problem = f"'{method}' of the environment took longer than {self._deadline(slot):g} s"
            self._fail(slot, broken(method, problem))
        slot.kill()
        slot.put(None)
        self._end_call(slot)

    @staticmethod
    def _fail(slot: Slot, error: Exception) -> None:
        if slot.call is not None and not slot.call.future.done():
            slot.call.future.set_exception(error)

    def _end_call(self, slot: Slot) -> None:
        if slot.timer is not None:
            slot.timer.cancel()
        slot.call = slot.timer = None
        self._release(slot)

    def _release(self, slot: Slot) -> None:
        """Free the slot once the lease is over and no call of it, such as a cancelled one, is still running."""
        if slot.leased or slot.call is not None:
            return
        if not slot.lost and not self._closed:
            self._idle.append(slot)
        self._slots.release()

    def gone(self, slot: Slot) -> None:
        """Take a slot's last message. For ``Slot``."""
        slot.join()
        self._alive.discard(slot)

    async def _wait_for_exits(self, of: Callable[[Slot], bool]) -> None:
        end_s = time.monotonic() + self.close_s
        while any(map(of, self._alive)) and time.monotonic() < end_s:
            await asyncio.sleep(0.002)
