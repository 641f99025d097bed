"""What the sandboxes of every back end share: they belong to it, give out sessions, and close once."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

from turngate.envs.sandbox.base import Limits, Sandbox
from turngate.envs.sandbox.session import SHELLS, Session, ShellProcess
from turngate.errors import EnvError


class OwnedSandbox(Sandbox):
    """``leave`` makes the back end forget the sandbox, when it is closed."""

    def __init__(self, limits: Limits, leave: Callable[[OwnedSandbox], None]) -> None:
        self.limits = limits
        self._leave, self._closed, self._lock = leave, False, threading.Lock()
        self._sessions: list[Session] = []

    def session(self, shell: Literal["bash", "python"] = "bash", state: bytes = b"") -> Session:
        """See ``Sandbox.session``."""
        self._check_open()
        session = Session(SHELLS[shell], lambda: self._shell(SHELLS[shell].argv), self.limits.output_bytes, state)
        self._sessions.append(session)
        return session

    def close(self) -> None:
        """See ``Sandbox.close``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._leave(self)
        for session in self._sessions:
            session.close()
        self._release()

    def _check_open(self) -> None:
        if self._closed:
            raise EnvError("the sandbox is closed")

    @abstractmethod
    def _shell(self, argv: Sequence[str]) -> ShellProcess:
        """A process for a session."""

    @abstractmethod
    def _release(self) -> None:
        """End every process and remove every file; called once, after the sessions."""
