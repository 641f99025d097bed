"""Commands in processes of their own that do not begin with importing torch: a process that has imported everything
forks for each of them.

Each is ``python -m turngate`` as it is anywhere else, except that its pictures are not drawn: it has its own memory,
folder, variables, session and end. Only what an interpreter fixes when it starts is that of the first process: its
path, the seed of its hashes, its locale.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("forking.py")
STARTS_S = 300.0
ENDS_S = 60.0
BEFORE = dict(os.environ)
"""The variables before the first test, which may change them."""


class Forked:
    """A command that was started; to whoever uses it, it is a ``subprocess.Popen`` whose output goes to files."""

    def __init__(self, first: "subprocess.Popen[bytes]", request: Mapping[str, object], folder: Path) -> None:
        self._first, self._folder = first, folder
        self.args = request["words"]
        self.returncode: int | None = None
        assert first.stdin is not None
        first.stdin.write(json.dumps(request).encode() + b"\n")
        first.stdin.flush()
        self.pid = int(self._read(STARTS_S))

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None) -> int:
        """``poll``, when it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            self.returncode = int(self._read(timeout))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it printed on stdout and stderr, when it has ended."""
        self.wait(timeout)
        out, errors = ((self._folder / name).read_text() for name in ("out", "errors"))
        return out, errors

    def send_signal(self, number: int) -> None:
        """Nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> bytes:
        assert self._first.stdout is not None
        if not select.select([self._first.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.args), timeout or 0.0)
        line = self._first.stdout.readline()
        assert line, "the process that forks has ended"
        return line


class Forks:
    """Starts commands, one after the other: the next one when the last has ended."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        """``folder``: for what they print, removed at the end. ``env``: variables with which everything is imported."""
        command = [sys.executable, "-P", str(PROGRAM)]
        pipe = subprocess.PIPE
        self._first = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, bufsize=0, cwd=folder)
        self._folder, self._last = folder, None

    def start(
        self,
        *words: object,
        cwd: Path,
        env: Mapping[str, str],
        start_new_session: bool = False,
        module: str = "turngate",
    ) -> Forked:
        """``python -m turngate`` with these words, or another module."""
        if self._last is not None:
            self._last.wait(ENDS_S)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        request = {
            "module": module,
            "words": [*map(str, words)],
            "cwd": str(cwd),
            "env": dict(env),
            "session": start_new_session,
            "folder": str(folder),
        }
        self._last = Forked(self._first, request, folder)
        return self._last

    def run(
        self, *words: object, cwd: Path, env: Mapping[str, str], timeout: float = 300.0
    ) -> "subprocess.CompletedProcess[str]":
        """What a command printed, and its exit code."""
        return self._to_its_end(self.start(*words, cwd=cwd, env=env), timeout)

    def torchrun(
        self, program: object, *words: object, cwd: Path, env: Mapping[str, str], timeout: float = 300.0
    ) -> "subprocess.CompletedProcess[str]":
        """The same for ``torchrun --nproc-per-node 2`` with a program's file: torchrun forks for its processes, too."""
        torchrun = ("--nproc-per-node", 2, "--start-method", "fork", "--run-path", program)
        command = self.start(*torchrun, *words, cwd=cwd, env=env, module="torch.distributed.run")
        return self._to_its_end(command, timeout)

    def _to_its_end(self, command: Forked, timeout: float) -> "subprocess.CompletedProcess[str]":
        try:
            out, errors = command.communicate(timeout)
        finally:
            command.kill()
        assert command.returncode is not None
        return subprocess.CompletedProcess(command.args, command.returncode, out, errors)

    def close(self) -> None:
        """End what still runs, and the process that forks."""
        if self._last is not None:
            self._last.kill()
        self._first.kill()
        self._first.communicate()
        shutil.rmtree(self._folder)


@cache
def forks() -> Forks:
    """Those of the tests' own interpreter; what forks is started when it is first asked for, and once."""
    path = os.pathsep.join(filter(None, sys.path))
    folder = Path(tempfile.mkdtemp(prefix="turngate-forks-"))
    return Forks(folder, {**BEFORE, "PYTHONPATH": path})


@pytest.fixture(scope="session")
def forked() -> Forks:
    """The same, for tests that start commands themselves."""
    return forks()


@pytest.fixture(autouse=True, scope="session")
def closing_forks() -> Iterator[None]:
    """Nothing of it is left after the last test."""
    yield
    if forks.cache_info().currsize:
        forks().close()
