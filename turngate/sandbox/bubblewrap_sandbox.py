"""One bubblewrap sandbox on the library's side: it sends requests to its supervisor process and reads the answers."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from turngate.errors import EnvError
from turngate.sandbox import messages
from turngate.sandbox.base import (
    ENVIRONMENT,
    WORK,
    CommandResult,
    Entry,
    FolderSnapshot,
    KilledBy,
    Path_,
    ResourceLimits,
    SandboxFileError,
    check_command,
    in_folders,
    unstarted,
)
from turngate.sandbox.cgroups import ControlGroup
from turngate.sandbox.command import Command, NotStarted
from turngate.sandbox.descriptors import as_file, listed, read_all, write_all
from turngate.sandbox.digests import MAX_ANSWER_BYTES, unpack
from turngate.sandbox.managed import ManagedSandbox, blamed
from turngate.sandbox.reaper import now_ticks

CLOSE_S = 10.0  # for a supervisor to kill its commands; it takes milliseconds


@dataclass(frozen=True, eq=False)
class Layer:
    """A folder of the store that holds the files of one snapshot; removed when nothing refers to it any more."""

    name: str


@dataclass(frozen=True, slots=True)
class Layers(FolderSnapshot):
    """The layers of a snapshot, the lowest first, and the store that they lie in."""

    store: str
    layers: tuple[Layer, ...]


class LayeredBackend(Protocol):
    """The methods that a sandbox needs of the back end that made it, ``Bubblewrap``."""

    limits: ResourceLimits
    sandboxes: set[BubblewrapSandbox]
    overlay: bool

    def open(self, source: Path_ | FolderSnapshot | None = None) -> BubblewrapSandbox: ...

    def enter(
        self, sandbox: BubblewrapSandbox, layers: Sequence[Layer]
    ) -> tuple[socket.socket, int, ControlGroup | None]: ...

    def new_layer(self) -> Layer: ...

    def state_of(self, layers: Sequence[Layer]) -> Layers: ...

    def works(self) -> bool: ...


class BubblewrapSandbox(ManagedSandbox):
    """A sandbox in namespaces of its own, made by bubblewrap."""

    def __init__(self, backend: LayeredBackend, layers: tuple[Layer, ...]) -> None:
        super().__init__(backend.limits, backend.sandboxes.discard)
        self._backend, self._layers, self._numbers = backend, layers, count()
        self._supervisor, self._gone, self._group = backend.enter(self, layers)

    @blamed
    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        cwd: str = WORK,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        check_command(argv, deadline_s)
        if (refused := unstarted(argv)) is not None:
            return refused
        acted, end_s = self._acted, time.monotonic() + deadline_s
        with as_file(stdin) as source:
            command = self.start(argv, source, end_s=end_s, cwd=cwd, env=env)
        try:
            result = command.finish(end_s, self.limits.output_bytes)
        except NotStarted:
            self._acted = acted
            raise
        finally:
            command.close()
        if self._group:
            result = self._group.judge(result)
        if result.killed_by is KilledBy.CLOSED and not self._closed:
            raise EnvError("the supervisor process of the sandbox has ended, and the sandbox with it; open a new one")
        return result

    def start(
        self,
        argv: Sequence[str],
        stdin: int,
        *,
        end_s: float | None,
        cwd: str = WORK,
        env: Mapping[str, str] | None = None,
        extra: Sequence[int] = (),
    ) -> Command:
        """Start a program and do not wait. For ``run`` and sessions."""
        self._check_open()
        request = {
            "run": next(self._numbers),
            "argv": list(argv),
            "cwd": os.path.join(WORK, cwd),
            "env": dict(ENVIRONMENT) | dict(env or {}),
            "end_s": end_s,
        }
        command = Command(self._supervisor, request, stdin, extra)
        self._acted = True
        return command

    def _backend_works(self) -> bool:
        return self._backend.works()

    def _shell(self, argv: Sequence[str]) -> BubblewrapShell:
        return BubblewrapShell(self, argv)

    @blamed
    def read(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        with self._open("read", path) as fd:
            return read_all(fd, path, max_bytes)

    @blamed
    def write(self, path: str, content: bytes | str, *, executable: bool = False) -> None:
        with self._open("write", path, executable=executable) as fd:
            write_all(fd, path, content.encode() if isinstance(content, str) else content)

    @blamed
    def list(self, path: str = WORK) -> tuple[Entry, ...]:
        with self._open("list", path) as fd:
            return listed(fd)

    @blamed
    def tree(self, path: str = WORK) -> Mapping[str, str]:
        with self._open("tree", path) as fd:
            return unpack(read_all(fd, path, 4 * MAX_ANSWER_BYTES + (self.limits.files << 6)))

    @blamed
    def snapshot(self) -> Layers:
        layer = self._backend.new_layer()
        self.ask({"do": "snapshot", "layer": layer.name})
        below = self._layers if self._backend.overlay else ()
        return self._backend.state_of((*below, layer))

    def fork(self) -> BubblewrapSandbox:
        return self._backend.open(self.snapshot())

    def _release(self) -> None:
        with suppress(OSError):  # the supervisor is gone already
            self._supervisor.shutdown(socket.SHUT_RDWR)  # also wakes a thread that waits for an answer
        gone = select.select([self._gone], [], [], CLOSE_S)[0]
        os.close(self._gone)
        self._supervisor.close()
        if self._group:
            self._group.close()
        if not gone:
            raise EnvError(f"a sandbox could not be closed within {CLOSE_S:g} s")

    # --- talking to the supervisor ------------------------------------------------------------------------------------

    def ask(self, request: messages.Message) -> tuple[messages.Message, Sequence[int]]:
        """Send a request: the supervisor's answer, and the files that come with it.

        Raises SandboxFileError, with the system's message, if a file could not be read or written.
        """
        with self._lock:
            self._check_open()
            try:
                messages.send(self._supervisor, request)
                answer, files = messages.receive(self._supervisor)
            except (EOFError, OSError) as error:
                raise EnvError(f"the supervisor process of the sandbox has ended: {error}") from error
        if "error" in answer:
            if "path" in request:
                raise SandboxFileError(f"'{request['path']}': {answer['error']}")
            raise EnvError(f"the sandbox could not do '{request['do']}': {answer['error']}")
        return answer, files

    @contextmanager
    def _open(self, do: str, path: str, **more: Any) -> Iterator[int]:
        folder, below = in_folders(path)
        _answer, files = self.ask({"do": do, "folder": folder, "path": below, **more})
        try:
            yield files[0]
        finally:
            os.close(files[0])


class BubblewrapShell:
    """The shell of a session, run as a command of the sandbox (see ``session.ShellProcess``)."""

    needs_marker = False

    def __init__(self, sandbox: BubblewrapSandbox, argv: Sequence[str]) -> None:
        self._sandbox = sandbox
        stdin_end, self.stdin = os.pipe2(os.O_CLOEXEC)
        self.report, report_end = os.pipe2(os.O_CLOEXEC)
        try:
            self._command = sandbox.start(argv, stdin_end, end_s=None, extra=[report_end])
        except BaseException:
            os.close(self.stdin)
            os.close(self.report)
            raise
        finally:
            os.close(stdin_end)
            os.close(report_end)
        self.stdout, self.stderr = self._command.stdout, self._command.stderr

    @property
    def watched(self) -> int:
        return self._command.status.fileno()

    def ended(self) -> bool:
        if self._command.outcome is None:
            self._command.hear()
        return self._command.outcome is not None

    def mark(self) -> int:
        return now_ticks()

    def reap(self, mark: int, end_s: float) -> bool:
        request = {"do": "reap", "run": self._command.number, "since_ticks": mark, "end_s": end_s}
        answer, _files = self._sandbox.ask(request)
        return bool(answer["clean"])

    def close(self) -> None:
        self._command.kill()
        self._command.wait_dead(CLOSE_S)
        self._command.close()
        os.close(self.stdin)
        os.close(self.report)
