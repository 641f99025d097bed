"""``Slot``: one environment of a pool, and the calls that wait for it, which are carried out one after another."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from turngate.envs.base import TurnEnv
from turngate.envs.own_folder import OwnFolder
from turngate.envs.pool.process import ProcessEnv, as_env_error
from turngate.envs.pool.threads import ThreadPool
from turngate.errors import UserError
from turngate.foreign import described

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnvCall:
    """A call of an environment's method, and the future that waits for its result."""

    method: str
    on: Callable[[TurnEnv | ProcessEnv], object]
    """The call itself."""
    future: asyncio.Future[object]


class News:
    """A queue of messages from other threads to the event loop; any thread may use it.

    Waking the loop is the expensive part of a call, so one wake-up delivers all messages that have come by then.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._waking = loop, False
        self._queue: deque[Callable[[], None]] = deque()

    def add(self, hear: Callable[[], None]) -> None:
        """Have the event loop call ``hear`` after the next ``tell``."""
        self._queue.append(hear)

    def tell(self) -> None:
        """Wake the event loop if there is any news."""
        if self._queue and not self._waking:
            self._waking = True
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._waking = False  # before reading: later messages wake the loop again, so none is lost
        while self._queue:
            self._queue.popleft()()


class Listener(Protocol):
    """Receives the results of a slot, in the event loop."""

    def settle(self, slot: Slot, result: object, error: Exception | None, elapsed_s: float) -> None:
        """A call has ended after so many seconds, with a result or an error."""
        ...

    def gone(self, slot: Slot) -> None:
        """Its environment is closed; only its thread remains, which is about to end."""
        ...


class Slot:
    """One environment. It begins on a thread of its own; ``share`` lets it use those of others.

    ``call``, ``timer`` and the flags are used by the event loop's thread only.
    """

    def __init__(self, listener: Listener, build: Callable[[], TurnEnv | ProcessEnv], news: News) -> None:
        self._listener, self._build, self._news = listener, build, news
        self._env: TurnEnv | ProcessEnv | None = None
        self._folder = OwnFolder()
        self._own: ThreadPool | None = ThreadPool(1, news.tell)
        self._threads = self._own
        self._inbox: deque[EnvCall | None] = deque()
        self._lock, self._serving = threading.Lock(), False
        self.thread: threading.Thread | None = None
        """The one that served it last."""
        self.declared_s: float | None = None
        """The deadline of a step as its environment declares it; None until one is built."""
        self.any_thread = False
        """Whether its environment can be called from any thread; False until one is built."""
        self.call: EnvCall | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.leased = self.lost = False

    def put(self, call: EnvCall | None) -> None:
        """Have a call carried out after those before it; None: close the environment."""
        with self._lock:
            self._inbox.append(call)
            if self._serving:
                return
            self._serving = True
        self._threads.put(self._serve)

    def share(self, threads: ThreadPool) -> None:
        """Use the threads of ``threads`` from now on."""
        if self._own is not None:
            self._threads = threads
            self._own.end()
            self._own = None

    def kill(self) -> None:
        """End the environment's process at once; a thread cannot be ended."""
        env = self._env
        if isinstance(env, ProcessEnv):
            env.kill()

    def join(self) -> None:
        """Wait for its own thread, which is about to end; a shared one goes on."""
        if self._own is not None and self.thread is not None:
            self.thread.join()

    # --- everything below runs in a worker thread ---------------------------------------------------------------------

    def _serve(self) -> None:
        """Carry out the waiting calls. Only one thread does so at a time."""
        self.thread = threading.current_thread()
        while True:
            with self._lock:
                if not self._inbox:
                    self._serving = False
                    return
                call = self._inbox.popleft()
            if call is None:
                self._leave()
                return
            start_s = time.perf_counter()
            result, error = self._carry_out(call)
            elapsed_s = time.perf_counter() - start_s
            self._news.add(partial(self._listener.settle, self, result, error, elapsed_s))
            if error is not None and not isinstance(error, UserError):
                self._drop()

    def _carry_out(self, call: EnvCall) -> tuple[object, Exception | None]:
        try:
            with self._folder.entered():
                env = self._env or self._open()
                return call.on(env), None
        except BaseException as error:  # also SystemExit: the thread must live, or the caller waits for ever
            return None, as_env_error(error, call.method)

    def _open(self) -> TurnEnv | ProcessEnv:
        self._env = env = self._build()
        if isinstance(env, ProcessEnv):
            if self.lost:  # the deadline passed while the process was being started
                env.kill()
            self.declared_s = env.open()
        else:
            self.declared_s, self.any_thread = env.turn_spec.deadline_s, env.turn_spec.any_thread
        return env

    def _drop(self) -> None:
        try:
            if self._env is not None:
                self._env.close()
        except BaseException as error:  # also SystemExit: the loop must still be told that the environment is gone
            _log.warning(
                "an environment could not be closed; processes or files of it may be left behind: %s", described(error)
            )
        self._env = self.declared_s = None

    def _leave(self) -> None:
        self._drop()
        if self._own is not None:
            self._own.end()
        self._news.add(partial(self._listener.gone, self))
