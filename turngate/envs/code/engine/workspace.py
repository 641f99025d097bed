"""Where the agent works: its sandbox, its shell, and its changes so far."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from turngate.envs.code.grading.grading_sandbox import Bench, python_env
from turngate.envs.code.problem import Problem, Texts
from turngate.errors import AgentFault, EnvError
from turngate.sandbox import CommandResult, FolderSnapshot, Sandbox, SandboxFileError, SandboxLost
from turngate.sandbox.base import Session

_log = logging.getLogger(__name__)
MAX_FILE_BYTES = 1 << 20
MAX_CHANGE_BYTES = 4 << 20
MAX_CHANGED_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The differences from the tree as it was found."""

    texts: Texts
    """A byte that is not UTF-8 is a lone surrogate in them, so that nothing is lost."""
    too_large: tuple[str, ...] = ()
    """Files that no patch would hold: one larger than MAX_FILE_BYTES, all once they pass MAX_CHANGE_BYTES; or why there
    is no patch: too many files, or a tree that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A workspace at one moment. Programs that run in the background are not part of it."""

    snapshot: FolderSnapshot
    shell: bytes
    found: Mapping[str, str]
    quiet: bool
    acted: bool


class Workspace:
    """Opened by ``Workspace(bench, problem)``, or as it was by ``saved``."""

    def __init__(self, bench: Bench, problem: Problem, saved: Saved | None = None) -> None:
        self._sandbox: Sandbox = bench.open(problem) if saved is None else bench.reopen(saved.snapshot)
        self._shell: Session | None = None
        exports = "".join(f"export {name}='{value}'\n" for name, value in python_env(problem).items())
        self._shell_state = saved.shell if saved else exports.encode()
        self._tree: Mapping[str, str] | None = None
        self._changes: Changes | None = None
        self._key = ""
        self.quiet = saved.quiet if saved else True
        """Whether only the tools for files have acted so far: then the tree is the whole state."""
        self.acted = saved.acted if saved else False
        """Whether a program of the agent has run, which may be the cause of later failures of the sandbox."""
        self._lost = ""
        self.found = saved.found if saved else self.tree()
        if self._lost:
            self.close()
            raise EnvError(f"the tree of problem '{problem.id}' cannot be read: {self._lost}")

    @property
    def sandbox(self) -> Sandbox:
        """For running tests; ``touched`` has to be called afterwards."""
        return self._sandbox

    def bash(self, command: str, *, deadline_s: float) -> CommandResult:
        """One command in the shell, which stays."""
        self.touched()
        return self._open_shell().run(command, deadline_s=deadline_s)

    def read(self, path: str) -> bytes:
        """The content of a file. Raises SandboxFileError."""
        return self._sandbox.read(path, max_bytes=MAX_FILE_BYTES)

    def write(self, path: str, text: str) -> None:
        """Make or replace a file. Raises SandboxFileError."""
        self._sandbox.write(path, text.encode("utf-8", "surrogateescape"))
        self._tree, self._changes, self._key = None, None, ""

    def touched(self) -> None:
        """A program of the agent has run, and may have changed anything."""
        self.quiet, self.acted = False, True
        self._tree, self._changes, self._key = None, None, ""

    def tree(self) -> Mapping[str, str]:
        """Path → digest, of all files. Empty if the agent has made a tree that cannot be read, for instance because it
        is too deep: then there is no patch, which is the agent's doing and no fault of the environment."""
        if self._tree is None:
            self._lost = ""
            try:
                self._tree = self._sandbox.tree()
            except SandboxFileError as error:
                self._tree, self._lost = {}, str(error)
        return self._tree

    @property
    def state_key(self) -> str:
        """A hash of the whole tree: equal trees, equal keys."""
        if not self._key:
            listing = "\0".join(f"{path}\0{digest}" for path, digest in sorted(self.tree().items()))
            self._key = hashlib.blake2b(listing.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return self._key

    def changes(self) -> Changes:
        """The changes of the agent."""
        if self._changes is None:
            now = self.tree()
            if self._lost:
                return Changes(texts={}, too_large=(self._lost,))
            paths = sorted(path for path in {*now, *self.found} if now.get(path) != self.found.get(path))
            self._changes = self._read_changes(paths, now)
        return self._changes

    def save(self) -> Saved:
        """For another workspace to go on from here."""
        shell = self._shell.state if self._shell is not None else self._shell_state
        snapshot = self._sandbox.snapshot()
        return Saved(snapshot=snapshot, shell=shell, found=self.found, quiet=self.quiet, acted=self.acted)

    def close(self) -> None:
        """End everything. Safe to repeat. A sandbox that does not end in time is left, and named in a warning: so that
        the next episode is not affected."""
        try:
            self._sandbox.close()
        except EnvError as error:
            _log.warning("%s", error)

    @contextmanager
    def blame(self) -> Iterator[None]:
        """A failure of the sandbox inside is the agent's fault, once a program of the agent has run there.

        Raises AgentFault.
        """
        try:
            yield
        except SandboxLost as error:
            if not self.acted:
                raise
            raise AgentFault(f"the agent's programs broke their sandbox: {error}") from error

    def _open_shell(self) -> Session:
        if self._shell is None:
            self._shell = self._sandbox.session("bash", state=self._shell_state)
        return self._shell

    def _read_changes(self, paths: list[str], now: Mapping[str, str]) -> Changes:
        left = sum(path in now for path in paths)
        if left > MAX_CHANGED_FILES:  # each is read here and written again for every run of the hidden tests
            return Changes(texts={}, too_large=(f"{left} files, and a patch holds {MAX_CHANGED_FILES}",))
        texts: dict[str, str | None] = {}
        too_large, room = [], MAX_CHANGE_BYTES
        for path in paths:
            if path not in now:
                texts[path] = None
                continue
            try:
                content = self._sandbox.read(path, max_bytes=min(MAX_FILE_BYTES, max(room, 1)))
            except SandboxFileError:  # larger, a link to nowhere, a pipe: nothing that a patch could hold
                too_large.append(path)
                continue
            room -= len(content)
            texts[path] = content.decode("utf-8", "surrogateescape")
        return Changes(texts=texts, too_large=tuple(too_large))
