"""An engine in a process of its own, with its own interpreter and packages: how it is started, asked and ended.

It dies with this process, however this process ends: it watches it, and then removes its folder for temporary files and
kills itself and its children. What it prints goes into a file without a name; the last line is in messages of errors.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from turngate.agents.engines import link
from turngate.errors import ConfigError, TurngateError

GRACE_S = 5.0
"""How long an engine may take to end in order before it is killed."""
TAIL_CHARS = 2_000
LAUNCH = """
import importlib, sys, types
root, channel, weights, parent, server = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
for name in ("turngate", "turngate.agents", "turngate.agents.engines"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [root + name.replace(".", "/").removeprefix("turngate")]
module, _, serve = server.partition(":")
getattr(importlib.import_module(module), serve)(channel, weights, parent)
"""
"""Starts a server without the package's own imports, of which the engine's interpreter may have none."""


class EngineDied(TurngateError):
    """The engine's process is gone, hangs or lost its place in the conversation; it has to be started again."""


class EngineProcess:
    """The process of ``server``, which ``python``, an interpreter, finds as module:function and calls with the numbers
    of the channel, of the memory with the weights and of this process.

    ``memories``: file descriptors of shared memory that it inherits; the first holds the weights. Raises ConfigError if
    ``python`` cannot be run.
    """

    def __init__(
        self,
        python: str,
        server: str,
        *,
        memories: Sequence[int],
        environ: Mapping[str, str],
        search: Sequence[str] = (),
    ) -> None:
        self._channel, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._folder = tempfile.mkdtemp(prefix="turngate-engine-")
        root = str(Path(__file__).parents[2])
        numbers = [str(number) for number in (theirs.fileno(), memories[0], os.getpid())]
        paths = list(search)
        if python == sys.executable:  # another interpreter has packages of its own, which these could hide
            paths += filter(None, [os.environ.get("PYTHONPATH")])
        try:
            self._process = subprocess.Popen(
                [python, "-c", LAUNCH, root, *numbers, server],
                pass_fds=(theirs.fileno(), *memories),
                env={**os.environ, **environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": self._folder},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise ConfigError(f"policy.python '{python}' cannot be run: {error.strerror}") from error
        finally:
            theirs.close()
        self._asking = False

    @property
    def pid(self) -> int:
        """Its process id, which is that of its group, too."""
        return self._process.pid

    async def ask(self, message: link.Message, *, most_s: float) -> link.Message:
        """The reply to a message; other coroutines go on meanwhile. Raises EngineDied after ``most_s`` seconds, too."""
        self._begin()
        self._channel.setblocking(False)
        try:
            async with asyncio.timeout(most_s):
                reply = await link.ask(self._channel, message)
        except (OSError, TimeoutError) as error:
            raise self._died(message, error, most_s) from error
        return self._ended(message, reply)

    def ask_now(self, message: link.Message, *, most_s: float) -> link.Message:
        """The same, but everything waits, as it does for a model in this process."""
        self._begin()
        self._channel.settimeout(most_s)
        try:
            link.send(self._channel, message)
            reply = link.receive(self._channel)
        except OSError as error:
            raise self._died(message, error, most_s) from error
        return self._ended(message, reply)

    def end(self) -> None:
        """End it and all of its children; waits until they are gone. Can be called again."""
        self._channel.close()  # tells it to end
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if self._asking else GRACE_S)  # one that is at work would not listen
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def tail(self) -> str:
        """The end of what it printed."""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - TAIL_CHARS))
        return self._log.read().decode(errors="replace").strip()

    def _begin(self) -> None:
        if self._asking:  # the last question was cancelled, and its answer would be taken for this one's
            raise EngineDied("a question to the engine was cancelled before it was answered")
        self._asking = True

    def _ended(self, message: link.Message, reply: link.Message | None) -> link.Message:
        if reply is None:
            raise self._died(message, None, 0.0)
        self._asking = False
        if "error" in reply:
            raise EngineDied(f"the engine failed at '{message['do']}': {reply['error']}")
        return reply

    def _died(self, message: link.Message, error: Exception | None, most_s: float) -> EngineDied:
        if isinstance(error, TimeoutError):
            return EngineDied(f"the engine did not answer '{message['do']}' within {most_s:g} s")
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_S)  # its files close a moment before its exit code is known
        code = self._process.returncode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        last = [line.strip() for line in self.tail().splitlines() if line.strip()][-1:]
        said = f"; it last said: {last[0]}" if last else ""
        return EngineDied(f"the engine's process ended by {how} during '{message['do']}'{said}")
