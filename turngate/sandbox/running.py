"""The running commands of one sandbox, on its supervisor's side: starting, limiting, ending at the deadline,
reaping."""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from turngate.sandbox import messages
from turngate.sandbox.confinement import arguments
from turngate.sandbox.descriptors import file_of
from turngate.sandbox.mounts import MountPlan
from turngate.sandbox.reaper import end_all, is_alive, processes_below

_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, a command must not


@dataclass(slots=True)
class _RunningCommand:
    """A running command. ``init`` is the first process of its namespace; when it ends, the kernel ends all others."""

    number: int
    monitor_pid: int
    monitor_fd: int
    init_pid: int
    init_fd: int
    status: socket.socket
    report_fd: int
    end_s: float | None
    killed: str | None = None

    def kill(self, why: str) -> None:
        """End every process of the command."""
        self.killed = self.killed or why
        for fd in (self.init_fd, self.monitor_fd):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)


class Runs:
    """The running commands. ``poll``: the files that the supervisor waits on; processes of commands are added."""

    def __init__(self, plan: MountPlan, poll: select.poll) -> None:
        self._plan, self._poll = plan, poll
        self._runs: dict[int, _RunningCommand] = {}

    def start(self, message: messages.Message, files: list[int]) -> None:
        """Start a command. ``files``: its stdin, stdout and stderr, its status channel, then others that it
        inherits."""
        status = socket.socket(fileno=os.dup(files[3]))
        try:
            run = self._launch(message, files[:3], files[4:], status)
        except OSError as error:
            with suppress(OSError):
                messages.send(status, refusal(error))
            status.close()
            return
        self._runs[run.number] = run
        for fd in (run.monitor_fd, run.init_fd):
            self._poll.register(fd, select.POLLIN)
        with suppress(OSError):
            messages.send(status, {"started": True}, [run.init_fd])

    def _launch(
        self, message: messages.Message, streams: list[int], extra: list[int], status: socket.socket
    ) -> _RunningCommand:
        """Start bubblewrap, set the limits while the command's first process waits, then let it run."""
        report, report_end = os.pipe2(os.O_CLOEXEC)
        gate_end, gate = os.pipe2(os.O_CLOEXEC)
        try:
            monitor_pid = self._spawn(message, streams, extra, report_end, gate_end)
        except OSError:
            os.close(report)
            os.close(gate)
            raise
        finally:
            os.close(report_end)
            os.close(gate_end)
        try:
            init_pid = _first_line(report).get("child-pid")
            if init_pid is None:
                raise OSError(errno.ECHILD, "bubblewrap could not build the sandbox; its message is in stderr")
            run = _RunningCommand(
                number=message["run"],
                monitor_pid=monitor_pid,
                monitor_fd=os.pidfd_open(monitor_pid),
                init_pid=init_pid,
                init_fd=os.pidfd_open(init_pid),
                status=status,
                report_fd=report,
                end_s=message["end_s"],
            )
            self._limit(init_pid)
        except OSError:
            with suppress(ProcessLookupError):
                os.kill(monitor_pid, signal.SIGKILL)
            os.waitpid(monitor_pid, 0)
            os.close(report)
            raise
        finally:
            os.close(gate)  # from here on the command runs, if there is one
        return run

    def _spawn(
        self, message: messages.Message, streams: list[int], extra: list[int], report_end: int, gate_end: int
    ) -> int:
        """Start bubblewrap with the command. Returns the id of bubblewrap's process outside the sandbox, its
        *monitor*."""
        names = {f"@{number}" for number in range(len(extra))}  # stand for the numbers of further files
        argv = [str(extra[int(word[1:])]) if word in names else word for word in message["argv"]]
        filter_fd = os.open(self._plan.filter, os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = arguments(self._plan.root, message["cwd"], message["env"])
            lines += ["--seccomp", str(filter_fd), "--json-status-fd", str(report_end), "--block-fd", str(gate_end)]
            content = b"\0".join(os.fsencode(line) for line in lines) + b"\0"
            lines_fd = file_of("arguments", content)
            try:
                with _inherited(filter_fd, lines_fd, report_end, gate_end, *extra):
                    return os.posix_spawn(
                        self._plan.bwrap,
                        [self._plan.bwrap, "--args", str(lines_fd), "--", *argv],
                        {},
                        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
                        setsid=True,
                        setsigdef=_DEFAULT_SIGNALS,
                    )
            finally:
                os.close(lines_fd)
        finally:
            os.close(filter_fd)

    def _limit(self, pid: int) -> None:
        """Set the resource limits of a command that waits to start.

        Its user namespace must exist by then, because the kernel counts processes in each namespace apart.
        """
        limits = self._plan.limits
        for kind, value in (
            (resource.RLIMIT_NPROC, limits["processes"]),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["disk_bytes"]),
            (resource.RLIMIT_NOFILE, limits["open_files"]),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            resource.prlimit(pid, kind, (value, value))

    def init_of(self, number: int) -> int | None:
        """Id of the first process of a running command; None if no such command runs."""
        run = self._runs.get(number)
        return None if run is None else run.init_pid

    def patience_ms(self) -> int | None:
        """Milliseconds until the next deadline; None if no command has one."""
        ends = [run.end_s for run in self._runs.values() if run.end_s is not None and run.killed is None]
        return max(0, int((min(ends) - time.monotonic()) * 1000) + 1) if ends else None

    def look_after(self) -> None:
        """Kill the commands whose deadline has passed, and report those that have ended."""
        now_s = time.monotonic()
        for run in list(self._runs.values()):
            if run.end_s is not None and run.killed is None and now_s >= run.end_s:
                run.kill("deadline")
            if not _has_ended(run.monitor_fd):
                continue
            run.kill(run.killed or "")  # bubblewrap's first process ends when its monitor does; this makes it certain
            if not _has_ended(run.init_fd):
                self._ignore(run.monitor_fd)
                continue
            self._settle(run)

    def _ignore(self, fd: int) -> None:
        with suppress(KeyError):
            self._poll.unregister(fd)

    def _settle(self, run: _RunningCommand) -> None:
        """Report that the last process of a command has ended, then forget the command."""
        exit_code = _last_line(run.report_fd).get("exit-code")  # missing: killed, or it never came to the command
        with suppress(OSError):  # the library no longer waits for it
            messages.send(run.status, {"exit": exit_code, "killed": run.killed or None})
        run.status.close()
        del self._runs[run.number]
        for fd in (run.monitor_fd, run.init_fd):
            self._ignore(fd)
            os.close(fd)
        os.waitpid(run.monitor_pid, 0)
        with suppress(ChildProcessError):  # bubblewrap itself has reaped it
            os.waitpid(run.init_pid, 0)


def reap(init_pid: int, since_ticks: int, end_s: float) -> bool:
    """Kill what a command has started since ``since_ticks``, but not the command; whether it is all gone by
    ``end_s``."""
    return end_all(
        lambda: [pid for pid in processes_below(init_pid) if is_alive(pid, since_ticks) and not _is_command(pid)], end_s
    )


def _is_command(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            numbers = next(line for line in file if line.startswith("NSpid:")).split()
    except (OSError, StopIteration):
        return True  # it ended meanwhile
    return numbers[-1] == "2"  # in its own numbers: 1 is bubblewrap, 2 the command


def refusal(error: OSError) -> messages.Message:
    """An error of the system, as the message that is sent to the library."""
    return {"error": error.strerror or str(error), "errno": error.errno or errno.EIO}


@contextmanager
def _inherited(*files: int) -> Iterator[None]:
    """A program that is started within this context inherits these open files under the same numbers."""
    for fd in files:
        os.set_inheritable(fd, True)
    try:
        yield
    finally:
        for fd in files:
            os.set_inheritable(fd, False)


def _has_ended(process_fd: int) -> bool:
    return bool(select.select([process_fd], [], [], 0)[0])


def _first_line(report: int) -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(report, 1 << 12)
        if not byte:
            return {}
        line += byte
    first: dict[str, Any] = json.loads(line.splitlines()[0])
    return first


def _last_line(report: int) -> dict[str, Any]:
    with os.fdopen(report, "rb") as file:
        lines = file.read().splitlines()
    last: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return last
