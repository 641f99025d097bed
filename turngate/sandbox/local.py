"""NO SANDBOX: commands run as you, on your system, with your network and your files. For code that you trust.

It offers the same methods as a sandbox, so that an environment can be tried on any machine. Deadlines are enforced,
processes are ended and output is shortened as in a sandbox. Nothing else is: no limit of memory, disk or processes
holds, and a harmful command does its harm. ``/work``, ``/tmp`` and ``/home/agent`` stand for folders in a temporary
folder. The methods translate these paths; commands find the folders only through their working directory, ``HOME`` and
``TMPDIR``.

The processes of a command are found by a mark in their environment, also if they have detached themselves; a program
that removes the mark from its environment is not found.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from turngate.errors import ConfigError, DataError, EnvError
from turngate.sandbox.base import (
    ENVIRONMENT,
    FOLDERS,
    WORK,
    Backend,
    CommandResult,
    Entry,
    FolderSnapshot,
    KilledBy,
    Path_,
    ResourceLimits,
    SandboxFileError,
    Session,
    check_command,
    in_folders,
    unstarted,
)
from turngate.sandbox.descriptors import as_file, listed, read_all, write_all
from turngate.sandbox.digests import Known, digest_tree
from turngate.sandbox.managed import ManagedSandbox
from turngate.sandbox.reaper import end_all, is_alive, now_ticks, processes
from turngate.sandbox.scratch import Scratch
from turngate.sandbox.streams import HeadTail, Streams
from turngate.sandbox.trees import copy_tree

_SANDBOX, _COMMAND = "TURNGATE_SANDBOX", "TURNGATE_COMMAND"  # the marks: of all processes, and of one command's
_KILL_S = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class FolderCopy(FolderSnapshot):
    """A snapshot: a copy of the three folders, removed when nothing refers to it any more."""

    folder: str


class Local(Backend):
    """The back end. Raises ConfigError unless you write ``Local(trusted=True)``, because it isolates nothing."""

    name = "local"

    def __init__(self, limits: ResourceLimits | None = None, *, trusted: bool = False) -> None:
        if not trusted:
            raise ConfigError(
                "the back end 'local' is no sandbox: commands run as you and can do all that you can. Say trusted=True "
                "if you trust every command that will run, or use 'bubblewrap' or 'docker'"
            )
        _log.warning("NO SANDBOX: the back end 'local' runs commands as you, with your files and your network")
        self.limits = limits or ResourceLimits()
        self._scratch = Scratch("local")
        self._folder = str(self._scratch.path)
        self.sandboxes: set[LocalSandbox] = set()  # kept, so that sandboxes left open are closed here

    def open(self, source: Path_ | FolderSnapshot | None = None) -> LocalSandbox:
        if isinstance(source, FolderSnapshot) and not isinstance(source, FolderCopy):
            raise ConfigError(f"a {type(source).__name__} cannot be opened by 'local'; use the back end that made it")
        copy = source if source is None or isinstance(source, FolderCopy) else self.keep(source)
        sandbox = LocalSandbox(self, copy)
        self.sandboxes.add(sandbox)
        return sandbox

    def keep(self, folder: Path_) -> FolderCopy:
        """See ``Backend.keep``. Raises DataError if the folder cannot be read."""
        if not os.path.isdir(folder):
            raise DataError(folder, "is no folder; name the folder that /work shall begin with")
        copy = self.new_copy()
        try:
            copy_tree(os.fspath(folder), f"{copy.folder}/work")
        except OSError as error:
            raise DataError(folder, f"cannot be copied: {error}") from error
        return copy

    def close(self) -> None:
        for sandbox in list(self.sandboxes):
            sandbox.close()
        self._scratch.close()

    def new_copy(self) -> FolderCopy:
        """An empty snapshot."""
        copy = FolderCopy(self.new_folder())
        weakref.finalize(copy, shutil.rmtree, copy.folder, ignore_errors=True)
        return copy

    def moved(self, state: bytes, folder: str) -> bytes:
        """The state of a shell with the folders of its sandbox replaced by those in ``folder``."""
        return re.sub(re.escape(self._folder).encode() + rb"/\w+", folder.encode(), state)

    def new_folder(self) -> str:
        """Make a folder that holds the three folders of a sandbox, and return its path."""
        path = tempfile.mkdtemp(dir=self._folder)
        for name in FOLDERS:
            os.mkdir(f"{path}/{name}")
        return path


class LocalSandbox(ManagedSandbox):
    """See ``Sandbox``; the module's text says what this one does not do."""

    def __init__(self, backend: Local, copy: FolderCopy | None) -> None:
        super().__init__(backend.limits, backend.sandboxes.discard)
        self._backend, self._folder = backend, backend.new_folder()
        self._mark = f"{_SANDBOX}={uuid.uuid4().hex}"
        self._known: Known = {}
        if copy is not None:
            copy_tree(copy.folder, self._folder)

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
        start_s = time.monotonic()
        out, err = HeadTail(self.limits.output_bytes), HeadTail(self.limits.output_bytes)
        with as_file(stdin) as source:
            try:
                process, mark = self.start(argv, stdin=source, cwd=cwd, env=env)
            except OSError as error:  # as in a shell
                code = 127 if error.errno == errno.ENOENT else 126
                return CommandResult(exit=code, stdout=b"", stderr=os.fsencode(f"{argv[0]}: {error.strerror}\n"))
        with process:
            ended = os.pidfd_open(process.pid)
            try:
                killed = self._follow(process, ended, (out, err), start_s + deadline_s)
                kill_marked(mark)
                process.wait(_KILL_S)
            finally:
                os.close(ended)
        return CommandResult(
            exit=process.returncode if process.returncode >= 0 else 128 - process.returncode,
            stdout=out.content(),
            stderr=err.content(),
            truncated=bool(out.left_out or err.left_out),
            killed_by=killed,
            time_s=time.monotonic() - start_s,
        )

    @staticmethod
    def _follow(
        process: subprocess.Popen[bytes], ended: int, sinks: tuple[HeadTail, HeadTail], end_s: float
    ) -> KilledBy | None:
        assert process.stdout is not None
        assert process.stderr is not None
        streams = Streams({process.stdout.fileno(): sinks[0], process.stderr.fileno(): sinks[1]}, ended)
        while (left_s := end_s - time.monotonic()) > 0:
            if streams.wait(left_s):
                streams.drain()
                return None
        streams.drain()
        return KilledBy.DEADLINE

    def start(
        self,
        argv: Sequence[str],
        *,
        stdin: int,
        cwd: str = WORK,
        env: Mapping[str, str] | None = None,
        extra: Sequence[int] = (),
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a program and do not wait: the process, and the mark that all its processes carry."""
        self._check_open()
        self._acted = True
        folder = self.inside(os.path.join(WORK, cwd))
        if not os.path.isdir(folder):
            raise SandboxFileError(f"Can't chdir to {os.path.join(WORK, cwd)}; choose a folder that exists")
        mark = f"{_COMMAND}={uuid.uuid4().hex}"
        marks = dict(line.split("=") for line in (self._mark, mark))
        places = {"HOME": f"{self._folder}/home", "TMPDIR": f"{self._folder}/tmp", "PATH": os.environ.get("PATH", "")}
        process = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(ENVIRONMENT) | places | dict(env or {}) | marks,
            pass_fds=extra,
            start_new_session=True,
            bufsize=0,
        )
        return process, mark

    def _backend_works(self) -> bool:
        return True

    def _shell(self, argv: Sequence[str]) -> LocalShell:
        return LocalShell(self, argv)

    def inside(self, path: str) -> str:
        """The path on the host of a path of the sandbox. Raises SandboxFileError if it lies outside of its folders."""
        name, below = in_folders(path)
        root = f"{self._folder}/{name}"
        real = os.path.realpath(os.path.join(root, below))
        if real != root and not real.startswith(root + "/"):
            raise SandboxFileError(f"'{path}' leads out of the sandbox's folders")
        return real

    def read(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        real = self.inside(path)
        if not os.path.isfile(real):
            raise SandboxFileError(f"'{path}': there is no such file")
        with open(real, "rb") as file:
            return read_all(file.fileno(), path, max_bytes)

    def write(self, path: str, content: bytes | str, *, executable: bool = False) -> None:
        real = Path(self.inside(path))
        if real.exists() and not real.is_file():
            raise SandboxFileError(f"'{path}' is not a regular file")
        try:
            real.parent.mkdir(parents=True, exist_ok=True)
            with open(real, "wb") as file:
                write_all(file.fileno(), path, content.encode() if isinstance(content, str) else content)
            real.chmod(0o755 if executable else 0o644)
        except OSError as error:
            raise SandboxFileError(f"'{path}': {error.strerror}") from error

    def list(self, path: str = WORK) -> tuple[Entry, ...]:
        try:
            fd = os.open(self.inside(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise SandboxFileError(f"'{path}': {error.strerror}") from error
        try:
            return listed(fd)
        finally:
            os.close(fd)

    def tree(self, path: str = WORK) -> Mapping[str, str]:
        try:
            fd = os.open(self.inside(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return digest_tree(fd, self._known)
            finally:
                os.close(fd)
        except OSError as error:
            raise SandboxFileError(f"'{path}': {error.strerror}") from error

    def session(self, shell: Literal["bash", "python"] = "bash", state: bytes = b"") -> Session:
        """See ``Sandbox.session``. Where the state names the folders of another sandbox, it gets those of this one."""
        return super().session(shell, self._backend.moved(state, self._folder))

    def snapshot(self) -> FolderCopy:
        copy = self._backend.new_copy()
        copy_tree(self._folder, copy.folder)
        return copy

    def fork(self) -> LocalSandbox:
        return self._backend.open(self.snapshot())

    def _release(self) -> None:
        kill_marked(self._mark)
        shutil.rmtree(self._folder, ignore_errors=True)


class LocalShell:
    """A shell of a session (see ``session.ShellProcess``)."""

    needs_marker = False

    def __init__(self, sandbox: LocalSandbox, argv: Sequence[str]) -> None:
        stdin_end, self.stdin = os.pipe2(os.O_CLOEXEC)
        self.report, report_end = os.pipe2(os.O_CLOEXEC)
        try:
            words = [str(report_end) if word == "@0" else word for word in argv]
            self._process, self._mark = sandbox.start(words, stdin=stdin_end, extra=[report_end])
        finally:
            os.close(stdin_end)
            os.close(report_end)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout, self.stderr = self._process.stdout.fileno(), self._process.stderr.fileno()
        self.watched = os.pidfd_open(self._process.pid)

    def ended(self) -> bool:
        return bool(select.select([self.watched], [], [], 0)[0])

    def mark(self) -> int:
        return now_ticks()

    def reap(self, mark: int, end_s: float) -> bool:
        kill_marked(self._mark, (self._process.pid,), mark)
        return True

    def close(self) -> None:
        kill_marked(self._mark)
        with self._process:
            self._process.wait(_KILL_S)
        for fd in (self.stdin, self.report, self.watched):
            os.close(fd)


def kill_marked(mark: str, spared: Sequence[int] = (), since_ticks: int = 0) -> None:
    """Kill every process that carries the mark and started at ``since_ticks`` or later, except those in ``spared``."""
    if not end_all(lambda: set(_marked(mark, since_ticks)).difference(spared), time.monotonic() + _KILL_S):
        raise EnvError(f"the processes of a command could not be ended within {_KILL_S:g} s")


def _marked(mark: str, since_ticks: int) -> Iterator[int]:
    for pid in processes():
        with suppress(OSError):  # it ended meanwhile, or belongs to another user
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and is_alive(pid, since_ticks):
                yield pid
