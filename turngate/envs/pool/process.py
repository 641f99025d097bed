"""One environment in a process of its own, which can be killed together with everything that it started.

The process is the leader of its own session, so an interrupt at the terminal does not reach it, and one signal to its
process group ends all of the group. Child processes that left the group are found through ``/proc`` (on Linux) and
killed too.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from turngate.envs.base import Snapshot, TurnEnv
from turngate.errors import AgentFault, ConfigError, EnvError, EpisodeError, TurngateError
from turngate.foreign import described
from turngate.sandbox.reaper import end_all, processes_below
from turngate.types import Action, Ending, Info, Observation

CLOSE_S = 10.0  # how long an environment may take to close before its process is killed

_log = logging.getLogger(__name__)


class ProcessEnv:
    """The methods of a ``TurnEnv``, carried out by a child process.

    Make one call at a time, from one thread; ``kill`` may come from any thread. Once the process has died, every method
    raises an error that names its exit code: AgentFault from ``step`` and ``finish``, EnvError from the others.
    """

    def __init__(self, make_env: bytes) -> None:
        """``make_env``: a pickled function without arguments. Starts the process; ``open`` waits for it."""
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make_env), name="turngate-env", daemon=True)
        self._process.start()
        theirs.close()
        self._lock = threading.Lock()
        self._exit: int | None = None  # set once the process is reaped; another may then have its pid

    def open(self) -> float:
        """Wait until the environment is built; its declared deadline in seconds."""
        deadline_s: float = self._receive("construction")
        return deadline_s

    def reset(self, *, seed: int | None, options: Mapping[str, object] | None) -> tuple[Observation, Info]:
        """As ``TurnEnv.reset``."""
        result: tuple[Observation, Info] = self._ask("reset", seed=seed, options=options)
        return result

    def step(self, action: Action | str) -> tuple[Observation, float, bool, bool, Info]:
        """As ``TurnEnv.step``."""
        result: tuple[Observation, float, bool, bool, Info] = self._ask("step", action)
        return result

    def finish(self, ending: Ending) -> tuple[float, Info]:
        """As ``TurnEnv.finish``."""
        result: tuple[float, Info] = self._ask("finish", ending)
        return result

    def snapshot(self) -> Snapshot:
        """As ``TurnEnv.snapshot``."""
        result: Snapshot = self._ask("snapshot")
        return result

    def restore(self, snapshot: Snapshot) -> None:
        """As ``TurnEnv.restore``."""
        self._ask("restore", snapshot)

    def close(self) -> None:
        """Let the environment close, or kill it after ``CLOSE_S``. Safe to repeat."""
        if self._exit is not None:
            return
        with suppress(OSError):  # it is dead already
            self._connection.send(None)
        if not wait([self._process.sentinel], timeout=CLOSE_S):
            _log.warning("an environment's process did not close within %g s and is killed", CLOSE_S)
        elif problem := self._last_word():
            _log.warning("an environment could not be closed; processes or files of it may be left behind: %s", problem)
        self._bury()

    def _last_word(self) -> str:
        """The error of the environment's close(), as text; empty if it closed well."""
        with suppress(EOFError, OSError):
            while self._connection.poll():
                result, _ = self._connection.recv()
                if isinstance(result, _Unclosed):
                    return result.problem
        return ""

    def kill(self) -> None:
        """End the process and everything below it, now."""
        with self._lock:
            if self._exit is None:
                _kill_tree(self._process.pid or 0)

    def _ask(self, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            self._connection.send((method, args, kwargs))
        except OSError:
            raise self._death(method) from None
        return self._receive(method)

    def _receive(self, method: str) -> Any:
        # The sentinel too: a process below it may hold the pipe open, and then the end of the pipe never comes.
        wait([self._connection, self._process.sentinel])
        try:
            if not self._connection.poll():
                raise EOFError
            result, error = self._connection.recv()
        except (EOFError, OSError):
            raise self._death(method) from None
        if error is not None:
            raise error
        return result

    def _death(self, method: str) -> EpisodeError:
        wait([self._process.sentinel], timeout=CLOSE_S)  # the pipe breaks a moment before the process has its exit code
        self._bury()
        code = self._exit if self._exit is not None else 0
        how = f"was ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return broken(method, f"the environment's process {how} during '{method}'")

    def _bury(self) -> None:
        """Kill the process and its group if they still run, then reap it."""
        with self._lock:
            if self._exit is None:
                _kill_tree(self._process.pid or 0)
                self._process.join()
                self._exit = self._process.exitcode
                self._connection.close()


@dataclass(frozen=True, slots=True)
class _Unclosed:
    """The last message of a process whose environment could not be closed."""

    problem: str


def broken(method: str, problem: str) -> EpisodeError:
    """The error for a call that hung or whose process died: AgentFault if an action of the agent can be the cause."""
    return (AgentFault if method in ("step", "finish") else EnvError)(problem)


def pickled(make_env: Callable[[], TurnEnv]) -> bytes:
    """``make_env`` pickled, to be sent to a process. Raises ConfigError for a lambda, a local function and the like."""
    try:
        return pickle.dumps(make_env)
    except Exception as error:  # pickle raises whatever the object's own hooks raise
        raise ConfigError(
            f"make_env cannot be sent to a process: {error}; use a function at the top level of a module, "
            "or functools.partial(turngate.make, ID)"
        ) from error


def _serve(connection: Connection, make_env: bytes) -> None:
    """The main function of the child: build the environment, answer calls until None comes or the parent ends, close
    it.
    """
    os.setsid()
    env: TurnEnv | None = None
    try:
        env = pickle.loads(make_env)()
        connection.send((env.turn_spec.deadline_s, None))
        while (message := _next(connection)) is not None:
            method, args, kwargs = message
            connection.send_bytes(_reply(env, method, args, kwargs))
    except Exception as error:
        if env is not None:
            raise
        connection.send_bytes(pickle.dumps((None, as_env_error(error, "construction", portable=True))))
    finally:
        if env is not None:
            _close(env, connection)


def _close(env: TurnEnv, connection: Connection) -> None:
    try:
        env.close()
    except (Exception, SystemExit) as error:
        with suppress(OSError):  # the parent does not listen any more
            connection.send((_Unclosed(described(error)), None))


def _next(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return None


def _reply(env: TurnEnv, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    try:
        return pickle.dumps((getattr(env, method)(*args, **kwargs), None))
    except Exception as error:
        return pickle.dumps((None, as_env_error(error, method, portable=True)))


def as_env_error(error: BaseException, method: str, *, portable: bool = False) -> TurngateError:
    """An error of turngate as it is, any other as EnvError. ``portable``: leave out its cause, which may not pickle."""
    if isinstance(error, TurngateError):
        return error
    wrapped = EnvError(f"the environment broke in '{method}': {described(error)}")
    if not portable:
        wrapped.__cause__ = error
    return wrapped


def _kill_tree(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing while we look
    end_all(lambda: processes_below(pid), time.monotonic() + CLOSE_S)
    with suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:  # not yet so in the first moments of its life
            os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
