"""Base of the sandboxes of every back end: sessions, closing once, and whether a failure may be the agent's fault."""

from __future__ import annotations

import functools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Concatenate, Literal, ParamSpec, TypeVar

from turngate.errors import EnvError
from turngate.sandbox.base import ResourceLimits, Sandbox, SandboxLost, Session
from turngate.sandbox.session import SHELLS, FramedSession, ShellProcess

_P = ParamSpec("_P")
_T = TypeVar("_T")
_S = TypeVar("_S", bound="ManagedSandbox")


class ManagedSandbox(Sandbox):
    """Base class of the sandboxes of all back ends. ``leave`` is called when it closes: the back end then forgets
    it."""

    def __init__(self, limits: ResourceLimits, leave: Callable[[ManagedSandbox], None]) -> None:
        self.limits = limits
        self._leave, self._closed, self._lock = leave, False, threading.Lock()
        self._sessions: list[Session] = []
        self._acted = False
        """Whether a program of the agent has been started in it."""

    def session(self, shell: Literal["bash", "python"] = "bash", state: bytes = b"") -> Session:
        self._check_open()
        language, bytes_kept = SHELLS[shell], self.limits.output_bytes
        session = FramedSession(language, lambda: self._shell(language.argv), bytes_kept, state, guard=self.blame)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._leave(self)
        for session in self._sessions:
            session.close()
        self._release()

    @contextmanager
    def blame(self) -> Iterator[None]:
        """Turn an EnvError into SandboxLost if a program of the agent may be its cause.

        That is so if one has been started in this sandbox, and the back end still works for others.
        """
        try:
            yield
        except SandboxLost:
            raise
        except EnvError as error:
            if not self._acted or self._closed or not self._backend_works():
                raise
            raise SandboxLost(str(error)) from error

    def _check_open(self) -> None:
        if self._closed:
            raise EnvError("the sandbox is closed")

    @abstractmethod
    def _backend_works(self) -> bool:
        """Whether other sandboxes of the back end still work."""

    @abstractmethod
    def _shell(self, argv: Sequence[str]) -> ShellProcess:
        """Start the shell process of a session."""

    @abstractmethod
    def _release(self) -> None:
        """End every process and remove every file; called once, after the sessions."""


def blamed(method: Callable[Concatenate[_S, _P], _T]) -> Callable[Concatenate[_S, _P], _T]:
    """Decorator: run a method of a sandbox within ``ManagedSandbox.blame``."""

    @functools.wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self.blame():
            return method(self, *args, **kwargs)

    return call
