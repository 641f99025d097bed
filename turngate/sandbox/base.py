"""The interface of a sandbox: an isolated place in which an agent's commands run, and which is removed when it closes.

    with open_backend("bubblewrap") as backend:
        with backend.open(folder) as sandbox:                    # /work is a private copy of the folder
            result = sandbox.run(["python3", "main.py"], deadline_s=10)
            branch = sandbox.fork()                              # an exact copy, cheap, independent from here on

Every back end looks the same from inside: the folders ``/work``, ``/tmp`` and ``/home/agent`` belong to the sandbox and
can be written; the rest of the system is read-only; there is no network. A snapshot keeps the content of those three
folders and nothing else.

A program that fails, floods its output, cannot be started or runs past its deadline gives a ``CommandResult``. An
exception means that the sandbox itself broke, or that the caller has to change something (ConfigError). A sandbox that
broke is SandboxLost if a program had run in it, because that program may be the cause, and else EnvError.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Literal, NoReturn, Self, TypeAlias

from turngate.errors import ConfigError, EnvError, UserError

WORK, TMP, HOME = "/work", "/tmp", "/home/agent"
FOLDERS = {"work": WORK, "tmp": TMP, "home": HOME}
"""Name of each folder that can be written → its path inside the sandbox."""

BYPRODUCTS = frozenset({"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis", ".git"})
"""Folders that ``Sandbox.tree`` leaves out: tools write times and paths into them, so they differ between equal
states."""

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": HOME,
    "USER": "agent",
    "LANG": "C.UTF-8",
    "TMPDIR": TMP,
}
"""The environment variables of every command; none is inherited from the host."""

ARGUMENT_BYTES = 120_000
"""Longest command line in bytes, all words together. A longer one is not started, as in a shell (exit status 126)."""

Path_: TypeAlias = str | Path


class KilledBy(StrEnum):
    """Why a command did not end by itself."""

    DEADLINE = "deadline"
    """It was still running at its deadline."""
    MEMORY = "memory"
    """The processes of the sandbox together used more memory than the limit."""
    CLOSED = "closed"
    """The sandbox was closed while it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """Limits of a sandbox. A program that needs more fails with an error of its own; nothing is exceeded silently."""

    memory_bytes: int = 2 << 30
    """Most memory in bytes: the address space of each process and, where control groups work, all processes
    together."""
    disk_bytes: int = 512 << 20
    """Most bytes of all files under /work, /tmp, /home and /dev/shm together."""
    files: int = 20_000
    """Most files and folders under /work, /tmp, /home and /dev/shm together.

    With bubblewrap the files of the folder or snapshot that /work began with do not count. A program that makes one
    more is told that the disk is full. A high limit makes turns slow, because each turn looks at every file.
    """
    processes: int = 128
    """Most processes and threads that run at the same time."""
    open_files: int = 1024
    """Most open files of each process."""
    output_bytes: int = 64 << 10
    """How many bytes of each output stream are kept: half from its beginning, half from its end."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"the sandbox limit {name} is '{value}'; it must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended, and its output."""

    exit: int
    """Its exit status; 128 + n if signal n ended it; 127 if there is no such program, 126 if it cannot be started."""
    stdout: bytes
    """Its output; the middle is left out if ``truncated``."""
    stderr: bytes
    truncated: bool = False
    """Whether ``stdout`` or ``stderr`` was longer than ``ResourceLimits.output_bytes``."""
    killed_by: KilledBy | None = None
    """Why it was killed; None if it ended by itself."""
    time_s: float = 0.0
    note: str = ""
    """A message for the agent, for instance that its shell was started anew; empty if there is none."""

    def text(self) -> str:
        """Both streams as text, the errors last; a byte that is not UTF-8 becomes �."""
        return (self.stdout + self.stderr).decode(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a folder."""

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size_bytes: int


class FolderSnapshot:
    """The content of a sandbox's folders at one moment.

    It can be opened until its back end closes; its files are removed when nothing refers to it any more.
    """

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            'a snapshot of a sandbox\'s folders cannot be sent to another process; env.isolation = "thread" keeps all '
            "environments in one"
        )


class Session(ABC):
    """A shell that stays open: the state that one command leaves is there for the next. ``session.py`` says how.

    Use it from one thread; it ends with its sandbox at the latest.
    """

    @property
    @abstractmethod
    def state(self) -> bytes:
        """The state after the last command, for ``Sandbox.session`` to continue from; empty if nothing has run yet.

        The state of a bash is its working directory, variables, functions, aliases and options. A Python has none.
        """

    @abstractmethod
    def run(self, command: str, *, deadline_s: float) -> CommandResult:
        """One command in the shell. ``note`` says if the shell had to be started anew, and with what state.

        If no shell can be started because of what programs have left in the sandbox, the exit status is 126.
        """

    @abstractmethod
    def close(self) -> None:
        """End the shell. Safe to repeat."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Sandbox(ABC):
    """One isolated place to run commands in. Use it from one thread at a time."""

    limits: ResourceLimits

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float,
        cwd: str = WORK,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run one program until it ends, then kill everything that it started and left running.

        ``deadline_s``: seconds after which the program and everything that it started is killed, also what has detached
        itself. ``env``: variables that are added to ``ENVIRONMENT``. A relative ``cwd`` lies in /work.
        """

    @abstractmethod
    def session(self, shell: Literal["bash", "python"] = "bash", state: bytes = b"") -> Session:
        """A shell that stays open: working directory, variables and functions persist from one command to the next.

        ``state``: the ``Session.state`` of another bash session, which this one continues; for instance of a session in
        the sandbox that this one was forked from. Raises ConfigError for a Python session with a state.
        """

    @abstractmethod
    def read(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """The content of a file. Raises SandboxFileError if there is none, or if it is larger than ``max_bytes``."""

    @abstractmethod
    def write(self, path: str, content: bytes | str, *, executable: bool = False) -> None:
        """Make or replace a file, and make the folders above it. Raises SandboxFileError, also when the disk is
        full."""

    @abstractmethod
    def list(self, path: str = WORK) -> tuple[Entry, ...]:
        """The entries of a folder, sorted by name. Raises SandboxFileError if there is no such folder."""

    @abstractmethod
    def tree(self, path: str = WORK) -> Mapping[str, str]:
        """Relative path of each file below a folder → digest of its kind, executable bit and content.

        The digest begins with ``f:`` for a file, ``x:`` for one that may be executed, ``l:`` for a link, which is not
        followed; anything else is ``o:``. Empty folders and ``BYPRODUCTS`` are left out. A name that is not UTF-8 has
        surrogate escapes. A file above 64 MiB, or a sparse file that is nearly empty, is not read: its digest may be
        that of its size and the time of its last change. A file whose size and times are unchanged is not read again,
        so a program that had mapped a file into its memory can change it unseen.

        Raises SandboxFileError if there is no such folder, or if it cannot be read as a whole.
        """

    @abstractmethod
    def snapshot(self) -> FolderSnapshot:
        """Keep the present content of the folders; ``Backend.open`` makes new sandboxes from it."""

    @abstractmethod
    def fork(self) -> Self:
        """A new sandbox with the same files. Running programs, and so sessions, are not copied."""

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file. Safe to repeat."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Backend(ABC):
    """A way to make sandboxes. Many threads may use one."""

    name: str

    @abstractmethod
    def open(self, source: Path_ | FolderSnapshot | None = None) -> Sandbox:
        """A new sandbox. ``source``: a folder that /work begins with, or a snapshot of all folders."""

    @abstractmethod
    def keep(self, folder: Path_) -> FolderSnapshot:
        """Copy a folder once; the snapshot then opens any number of sandboxes whose /work begins with it."""

    @abstractmethod
    def close(self) -> None:
        """Close all sandboxes and remove all files of the back end. Safe to repeat."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class SandboxLost(EnvError):
    """A sandbox broke after a program had run in it, so that program may be the cause; its back end still works."""


class SandboxFileError(UserError):
    """A file in a sandbox cannot be read or written as asked. A tool shows the message to the agent."""


def normal(path: str) -> str:
    """A path without '.' and doubled slashes, and relative to /work where it lies below that."""
    pure = PurePosixPath(path)
    return str(pure.relative_to(WORK) if pure.is_relative_to(WORK) else pure)


def is_below_work(path: str) -> bool:
    """Whether a path is the one spelling of a place below /work, and cannot lead out of it."""
    leads_out = path.startswith("/") or ".." in path.split("/") or "\0" in path
    return path == normal(path) != "." and not leads_out


def in_folders(path: str) -> tuple[str, str]:
    """Split a path into the name of its folder (see ``FOLDERS``) and the path in it. A relative path lies in /work.

    Raises SandboxFileError for a path outside of the folders.
    """
    if "\0" in path:
        raise SandboxFileError("a path contains a NUL byte; remove it")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise SandboxFileError(f"a path contains {path[error.start]!r}, which no file system can hold") from None
    pure = PurePosixPath(normal(path))
    for name, root in FOLDERS.items():
        if pure.is_relative_to(root):
            return name, str(pure.relative_to(root))
    if pure.is_absolute():
        raise SandboxFileError(f"'{path}' lies outside of {', '.join(FOLDERS.values())}; only these can be reached")
    return "work", str(pure)


def check_command(argv: Sequence[str], deadline_s: float) -> None:
    """Raises ConfigError for a command that cannot be started as given."""
    if isinstance(argv, str) or not argv:
        raise ConfigError(f"argv is '{argv}'; pass a list of words, such as ['bash', '-c', TEXT]")
    if any("\0" in word for word in argv):
        raise ConfigError("a word of argv contains a NUL byte; remove it")
    try:
        os.fsencode("".join(argv))
    except UnicodeEncodeError as error:
        raise ConfigError(f"argv contains {error.object[error.start]!r}, which no program can be given") from None
    if not deadline_s > 0:
        raise ConfigError(f"deadline_s is '{deadline_s}'; it must be above 0")


def unstarted(argv: Sequence[str]) -> CommandResult | None:
    """The result of a command line that is too long to be started; None for any other."""
    length = sum(len(os.fsencode(word)) + 1 for word in argv)
    if length <= ARGUMENT_BYTES:
        return None
    problem = f"{argv[0][:80]}: Argument list too long ({length} bytes, at most {ARGUMENT_BYTES})\n"
    return CommandResult(exit=126, stdout=b"", stderr=os.fsencode(problem))
