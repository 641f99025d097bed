"""A command in a bubblewrap sandbox, as the library sees it: its streams, and the channel that reports its end."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from turngate.errors import EnvError
from turngate.sandbox import messages
from turngate.sandbox.base import CommandResult, KilledBy, SandboxFileError
from turngate.sandbox.streams import HeadTail, Streams

BACKSTOP_S = 0.05  # the supervisor kills at the deadline; if it is this late, the library kills
LOST_S = 10.0  # a process that is still there this long after its deadline hangs in the kernel


class NotStarted(EnvError):
    """The command could not be started, so no program of the agent ran."""


class Command:
    """One command: the pipes of its output, and what the supervisor reports about it. ``close`` it when done."""

    def __init__(
        self, supervisor: socket.socket, request: messages.Message, stdin: int, extra: Sequence[int] = ()
    ) -> None:
        """``stdin``: an open file; ``extra``: further files that the command inherits (see ``session.REPORT``)."""
        self._stack, self._start_s = ExitStack(), time.monotonic()
        self.number: int = request["run"]
        self.init_fd: int | None = None
        self._killed = False
        self.outcome: messages.Message | None = None
        self.stdout, stdout_end = os.pipe2(os.O_CLOEXEC)
        self.stderr, stderr_end = os.pipe2(os.O_CLOEXEC)
        self.status, status_end = messages.pair()
        self._stack.callback(os.close, self.stdout)
        self._stack.callback(os.close, self.stderr)
        self._stack.callback(self.status.close)
        try:
            files = [stdin, stdout_end, stderr_end, status_end.fileno(), *extra]
            messages.send(supervisor, request | {"do": "run"}, files)
        except EnvError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise EnvError(f"the sandbox is closed or its supervisor process has ended: {error}") from error
        finally:
            os.close(stdout_end)
            os.close(stderr_end)
            status_end.close()

    def hear(self) -> None:
        """Read one report of the supervisor: the command started, ended, or could not be started."""
        try:
            message, files = messages.receive(self.status)
        except (EOFError, ConnectionError):
            message, files = {"exit": None, "killed": "closed"}, []
        if files:
            self.init_fd = files[0]
            self._stack.callback(os.close, self.init_fd)
        if "started" not in message:
            self.outcome = message

    def kill(self) -> None:
        """End every process of the command, without the supervisor's help."""
        self._killed = True
        if self.init_fd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def finish(self, end_s: float, output_bytes: int) -> CommandResult:
        """Wait until the command ends. The supervisor enforces the deadline ``end_s`` (on the monotonic clock)."""
        out, err = HeadTail(output_bytes), HeadTail(output_bytes)
        streams = Streams({self.stdout: out, self.stderr: err}, self.status.fileno())
        late_s = -1.0
        while self.outcome is None:
            if streams.wait(min(1.0, BACKSTOP_S - late_s) if late_s < BACKSTOP_S else 0.05):
                self.hear()
            late_s = time.monotonic() - end_s
            if self.outcome is None and late_s >= BACKSTOP_S:
                self.kill()
                if late_s > LOST_S:
                    raise EnvError(f"a command could not be ended within {LOST_S:g} s after its deadline")
        streams.drain()
        return self._result(self.outcome, out, err)

    def _result(self, outcome: messages.Message, out: HeadTail, err: HeadTail) -> CommandResult:
        code, killed, errors = outcome.get("exit"), outcome.get("killed"), err.content()
        if code is None and self._killed:
            killed = killed or KilledBy.DEADLINE
        if code is None and killed is None and errors.startswith(b"bwrap: execvp "):
            errors = errors.removeprefix(b"bwrap: execvp ")
            code = 127 if errors.endswith(b": No such file or directory\n") else 126  # as in a shell
        elif code is None and killed is None and ("error" in outcome or errors.startswith(b"bwrap: ")):
            raise self._failure(outcome, errors)  # else it ran, and its monitor was killed, for instance for its memory
        return CommandResult(
            exit=128 + signal.SIGKILL if code is None else code,
            stdout=out.content(),
            stderr=errors,
            truncated=bool(out.left_out or err.left_out),
            killed_by=KilledBy(killed) if killed else None,
            time_s=time.monotonic() - self._start_s,
        )

    @staticmethod
    def _failure(outcome: messages.Message, errors: bytes) -> Exception:
        problem = errors.decode(errors="replace").strip() or outcome.get("error", "no message")
        if "Can't chdir to" in problem:
            return SandboxFileError(problem.removeprefix("bwrap: ") + "; choose a folder that exists")
        return NotStarted(f"bubblewrap could not start the command: {problem}")

    def wait_dead(self, limit_s: float) -> bool:
        """Whether the last process of the command ends within ``limit_s``."""
        return self.init_fd is None or bool(select.select([self.init_fd], [], [], limit_s)[0])

    def close(self) -> None:
        """Close the pipes. Safe to repeat."""
        self._stack.close()
