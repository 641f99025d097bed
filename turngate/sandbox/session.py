"""A shell that stays open: working directory, variables and functions of one command are there for the next.

The shell reads commands from its standard input. It reports the end of each on a channel that the commands do not
inherit, so that no output can be mistaken for a report. Each report of a bash also holds its state. If the shell has to
be killed, or a command ends it, a new shell begins with the state of the last report. If no shell can begin with that
state, because a program has tampered with the report, it begins with the state that the session began with.

At its deadline only the processes that the command started are killed. The kernel tells the start of a process in
hundredths of a second, so one that an earlier command started in the same hundredth is killed too. If the shell then
reports, it stays open.
"""

from __future__ import annotations

import os
import select
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

from turngate.errors import ConfigError, EnvError
from turngate.sandbox.base import CommandResult, KilledBy, SandboxLost, Session
from turngate.sandbox.streams import HeadTail, Streams, StreamSink

REPORT = "@0"  # in an argv: the number of the channel for reports
GRACE_S = 0.1  # how long a shell may take to report after its command was killed
START_S = 30.0
RESTORE_S = 5.0  # how long a shell may take to restore a state, which normally takes milliseconds
MARKER_S = 1.0
STATE_BYTES = 1 << 20
_STATUS_DIGITS = 3  # a program that writes on the channel may write anything
_REPORT_FD = 250  # bash: out of the way of what people redirect


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How to talk to one kind of shell, bash or Python."""

    argv: tuple[str, ...]
    keeps_state: bool
    begin: bytes
    """Bytes to send when the shell has started."""
    frame: Callable[[bytes, int], bytes]
    """A command and the exit status of the one before → the bytes to send."""
    marker: Callable[[bytes], bytes]
    """Some bytes → what to send so that the shell writes them to both output streams."""


class ShellProcess(Protocol):
    """A running shell of some back end."""

    stdin: int
    stdout: int
    stderr: int
    report: int
    needs_marker: bool
    """Whether output can arrive after the report of the command that wrote it."""

    @property
    def watched(self) -> int:
        """A file that becomes ready when the process may have ended; ``ended`` then says whether it has."""
        ...

    def ended(self) -> bool:
        """Whether the process has ended."""
        ...

    def mark(self) -> int:
        """The present moment, for ``reap``."""
        ...

    def reap(self, mark: int, end_s: float) -> bool:
        """Kill all that was started since ``mark``, but not the shell; whether it is all gone by ``end_s``."""
        ...

    def close(self) -> None:
        """End the shell and everything that it started."""
        ...


class FramedSession(Session):
    """See the module's text."""

    def __init__(
        self,
        language: Language,
        start: Callable[[], ShellProcess],
        output_bytes: int,
        state: bytes = b"",
        *,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``start``: starts a shell process. ``output_bytes``: how much of each stream is kept. ``state``: what the
        shell begins with. ``guard``: a context in which each command runs.

        Raises ConfigError for a state in a language whose shells keep none.
        """
        if state and not language.keeps_state:
            raise ConfigError("a Python session cannot begin with a state; open a 'bash' session with it")
        self._language, self._start, self._output_bytes = language, start, output_bytes
        self._shell: ShellProcess | None = None
        self._state, self._exit, self._first = state, 0, state
        self._guard, self._closed = guard, False

    @property
    def state(self) -> bytes:
        return self._state

    def run(self, command: str, *, deadline_s: float) -> CommandResult:
        if self._closed:
            raise EnvError("the session is closed; open a new one")
        if "\0" in command:
            raise ConfigError("the command contains a NUL byte; remove it")
        try:
            with self._guard():
                shell, lost = (self._shell, "") if self._shell is not None else self._open()
        except SandboxLost as error:
            return CommandResult(exit=126, stdout=b"", stderr=f"{error}\n".encode())
        with self._guard():
            result = self._run(shell, command, deadline_s)
        return replace(result, note=f"{lost}\n{result.note}".strip()) if lost else result

    def _run(self, shell: ShellProcess, command: str, deadline_s: float) -> CommandResult:
        start_s = time.monotonic()
        mark = shell.mark()
        exchange = _Exchange(self._language, shell, self._output_bytes)
        end_s = time.monotonic() + deadline_s
        complete = exchange.send(self._frame(command), end_s) and exchange.until_report(end_s)
        killed = None
        if not complete and not exchange.is_over:
            killed = KilledBy.DEADLINE
            shell.reap(mark, time.monotonic() + GRACE_S)
            complete = exchange.until_report(time.monotonic() + GRACE_S)
        result = exchange.result(killed, time.monotonic() - start_s)
        if complete:
            self._exit, self._state = exchange.report.exit, exchange.report.state
            return replace(result, exit=self._exit)
        return replace(result, note=self._restart(killed))

    def close(self) -> None:
        self._closed = True
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    def _frame(self, command: str) -> bytes:
        return self._language.frame(command.encode(errors="replace"), self._exit)

    def _restart(self, killed: KilledBy | None) -> str:
        assert self._shell is not None
        self._shell.close()
        self._shell, self._exit = None, 0
        why = "the shell did not stop at the deadline" if killed else "the command ended the shell"
        if self._language.keeps_state and self._state:
            return f"[{why}; a new one has the working directory, variables and functions from before this command]"
        return f"[{why}; a new one was started, and all variables are lost]"

    def _open(self) -> tuple[ShellProcess, str]:
        """Start a shell: the shell, and a note if the state of the last one could not be restored; else ""."""
        states = [self._state, self._first, b""] if self._language.keeps_state else [b""]
        errors = ""
        for number, state in enumerate(dict.fromkeys(states)):
            self._shell = shell = self._start()
            exchange = _Exchange(self._language, shell, self._output_bytes)
            restore = self._language.begin + self._language.frame(state, 0)
            end_s = time.monotonic() + (RESTORE_S if state else START_S)
            if exchange.send(restore, end_s) and exchange.until_report(end_s):
                self._state = state
                return shell, "[the state of the shell could not be restored; a new one was started]" if number else ""
            errors = exchange.result(None, 0.0).text().strip()
            shell.close()
            self._shell = None
        raise EnvError(f"the shell of a session could not be started: {errors or 'no message'}")


class _Report:
    """The message of a shell at the end of a command: ``status NUL state NUL``."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.exit, self.state = 0, b""

    def feed(self, data: bytes) -> None:
        if len(self._data) <= STATE_BYTES:
            self._data += data

    def is_complete(self) -> bool:
        parts = self._data.split(b"\0")
        if len(parts) < 3 or not parts[0].isdigit() or len(parts[0]) > _STATUS_DIGITS:
            return False
        self.exit, self.state = int(parts[0]), bytes(parts[1])
        return True


class _Exchange:
    """Sends one command to a shell and collects its output and its report."""

    def __init__(self, language: Language, shell: ShellProcess, output_bytes: int) -> None:
        self._language, self._shell = language, shell
        self._out, self._err, self.report = HeadTail(output_bytes), HeadTail(output_bytes), _Report()
        sinks: dict[int, StreamSink] = {shell.stdout: self._out, shell.stderr: self._err, shell.report: self.report}
        self._streams = Streams(sinks, shell.watched)
        self.is_over = False

    def send(self, data: bytes, end_s: float) -> bool:
        """Write ``data`` to the shell; whether it took all of it by ``end_s``."""
        os.set_blocking(self._shell.stdin, False)
        view = memoryview(data)
        while view:
            room_s = end_s - time.monotonic()
            if room_s <= 0:
                return False
            if not select.select([], [self._shell.stdin], [], room_s)[1]:
                return False
            try:
                view = view[os.write(self._shell.stdin, view) :]
            except BrokenPipeError:
                self.is_over = True
                return False
        return True

    def until_report(self, end_s: float) -> bool:
        """Read until the shell reports or ends; whether it reported by ``end_s``."""
        while not self.report.is_complete():
            left_s = end_s - time.monotonic()
            if left_s <= 0 or self.is_over:
                return False
            if self._streams.wait(left_s) and self._shell.ended():
                self.is_over = True
                self._streams.drain()
        if self._shell.needs_marker and not self.is_over:
            self._until_marker()
        self._streams.drain()
        return True

    def _until_marker(self) -> None:
        """Wait until all output has arrived: the shell writes a marker to both streams. Give up after ``MARKER_S``,
        since a command may have redirected the shell's own streams."""
        marker, end_s = uuid.uuid4().hex.encode(), time.monotonic() + MARKER_S
        if not self.send(self._language.marker(marker), end_s):
            return
        seen = 0  # twice on one stream, if the command has led one into the other
        while seen < 2 and not self.is_over and (left_s := end_s - time.monotonic()) > 0:
            self.is_over = self._streams.wait(left_s) and self._shell.ended()
            seen += sum(stream.remove(marker) for stream in (self._out, self._out, self._err, self._err))

    def result(self, killed: KilledBy | None, time_s: float) -> CommandResult:
        self._streams.drain()
        return CommandResult(
            exit=137 if killed else 0,
            stdout=self._out.content(),
            stderr=self._err.content(),
            truncated=bool(self._out.left_out or self._err.left_out),
            killed_by=killed,
            time_s=time_s,
        )


# --- the languages ----------------------------------------------------------------------------------------------------

# Variables that the library sets are made read-only, so that a restored state cannot bring those of another shell.
_BASH_BEGIN = (
    f'eval "exec {_REPORT_FD}>&$1 $1>&-"; set --; shopt -s expand_aliases; '
    "for _ in ${!TURNGATE_@}; do readonly $_; done\n"
)
_BASH_REPORT = (
    "{ builtin printf '%d\\0' \"$?\"; builtin printf 'builtin cd -- %q\\n' \"$PWD\"; builtin declare -p; "
    "builtin declare -f; builtin alias -p; builtin shopt -p; builtin umask -p; builtin set +o; builtin printf '\\0'; "
    f"}} >&{_REPORT_FD} 2>/dev/null </dev/null\n"
)


def _bash_frame(command: bytes, last_exit: int) -> bytes:
    """The bytes that run a command at the top level of bash. In a loop or function ``break``, ``declare`` and
    ``return`` would mean something else."""
    status = f"(exit {last_exit})\n" if last_exit else ""  # so that $? is the status of the last command
    quoted = b"'" + command.replace(b"'", b"'\\''") + b"'"
    return status.encode() + b"builtin eval " + quoted + f" </dev/null {_REPORT_FD}>&-\n{_BASH_REPORT}".encode()


def _bash_marker(marker: bytes) -> bytes:
    return b"builtin printf %b; builtin printf %b >&2\n" % (marker, marker)


_PYTHON_DRIVER = """
import ast, os, sys, traceback
report, source = int(sys.argv.pop()), os.fdopen(os.dup(0), "rb")
sys.argv = [""]
os.set_inheritable(report, False)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
names = {"__name__": "__main__"}
def carry_out(text):
    tree = ast.parse(text, "<command>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<command>", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "<command>", "eval"), names)
        if value is not None:
            print(repr(value))
def turn(text):
    try:
        carry_out(text)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next.tb_next if error.__traceback__.tb_next else None
        traceback.print_exception(error)
        return 1
    return 0
while line := source.readline():
    if line[:1] == b"!":
        os.write(1, line[1:-1])
        os.write(2, line[1:-1])
        continue
    status = turn(source.read(int(line)))
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(report, b"%d\\0\\0" % (status & 255))
"""


def _python_frame(command: bytes, _last_exit: int) -> bytes:
    return b"%d\n%b" % (len(command), command)


def _python_marker(marker: bytes) -> bytes:
    return b"!%b\n" % marker


SHELLS = {
    "bash": Language(
        argv=("bash", "--noprofile", "--norc", "-s", REPORT),
        keeps_state=True,
        begin=_BASH_BEGIN.encode(),
        frame=_bash_frame,
        marker=_bash_marker,
    ),
    "python": Language(
        argv=("python3", "-u", "-c", _PYTHON_DRIVER, REPORT),
        keeps_state=False,
        begin=b"",
        frame=_python_frame,
        marker=_python_marker,
    ),
}
"""Name of each shell → how to talk to it. A Python session prints the value of a last expression, as an interactive
Python does."""
