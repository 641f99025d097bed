"""Processes in a container: their output as ordinary pipes, and a supervisor that can end them.

Docker cannot list what a command has left running, and cannot end it. So each container has a *supervisor*: a shell
script that runs as root, so the agent's user cannot kill it. It is started before any command and waits for requests.
It has one privilege of root: to signal any process of the container. It uses only commands that are built into the
shell, so it also works when the container may not start another process.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from turngate.errors import EnvError

_CHUNK = 1 << 16
_ANSWER_S = 20.0

# A command waits for a first line of input: only from then on are its streams read.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@"', "sh")

# mark → the time since boot in ticks. reap TICKS PIDS → ends what was born since, but not PIDS; then the number of
# processes that the kernel killed for their memory.
_SUPERVISOR_SCRIPT = r"""
oom() {
  kills=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r $file ] && while read -r name value; do [ $name = oom_kill ] && kills=$value; done < $file
  done
  echo $kills
}
doomed() {
  list=""
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    case " 1 $$ $spared " in *" $pid "*) continue;; esac
    read -r line 2>/dev/null < $folder/stat || continue
    set -- ${line##*) }
    case $1 in Z|X) continue;; esac
    [ ${20} -ge $since ] && list="$list $pid"
  done
}
while read -r order since spared; do
  case $order in
    mark) read -r up _ < /proc/uptime; echo ${up%.*}${up#*.};;
    reap)
      doomed
      while [ -n "$list" ]; do
        kill -STOP $list 2>/dev/null
        kill -KILL $list 2>/dev/null
        doomed
      done
      oom;;
  esac
done
"""


class Exec:
    """One process in a running container. ``stdout`` and ``stderr`` are pipes; ``ended`` becomes ready at its end."""

    def __init__(
        self,
        api: Any,
        container: str,
        argv: Sequence[str],
        *,
        user: str,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
    ) -> None:
        created = api.exec_create(
            container,
            [*_GATE, *argv],
            stdin=True,
            user=user,
            workdir=cwd,
            environment=dict(env or {}),
        )
        self._api, self._id = api, created["Id"]
        self._stream = api.exec_start(self._id, socket=True)
        self._socket: socket.socket = getattr(self._stream, "_sock", self._stream)
        self._socket.settimeout(None)
        self.stdin = self._socket.fileno()
        self.stdout, out = os.pipe2(os.O_CLOEXEC)
        self.stderr, err = os.pipe2(os.O_CLOEXEC)
        self.ended, self._end = os.pipe2(os.O_CLOEXEC)
        self._closed = False
        self._reader = threading.Thread(target=self._pump, args=({1: out, 2: err},), daemon=True)
        self._reader.start()
        self._socket.sendall(b"\n")

    def feed(self, content: bytes) -> None:
        """Write ``content`` to standard input and close it, in a thread: does not wait."""
        threading.Thread(target=self._feed, args=(content,), daemon=True).start()

    def exit_code(self) -> int:
        """The exit status, once the process has ended; −1 if Docker has none. Raises EnvError if Docker cannot say."""
        try:
            code = self._api.exec_inspect(self._id)["ExitCode"]
        except OSError as error:  # all that the package raises when the daemon has nothing to say
            raise EnvError(f"Docker does not know how a command ended: {error}") from error
        return -1 if code is None else int(code)

    def close(self) -> None:
        """Close pipes and socket. The process must have ended. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        with suppress(OSError):  # the daemon has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)
        for fd in (self.stdout, self.stderr):  # a reader that waits for room in a pipe goes on, with an error
            os.close(fd)
        self._reader.join()
        os.close(self.ended)
        self._stream.close()
        self._socket.close()

    def _feed(self, content: bytes) -> None:
        with suppress(OSError):  # the command ended without reading all of it
            self._socket.sendall(content)
            self._socket.shutdown(socket.SHUT_WR)

    def _pump(self, pipes: dict[int, int]) -> None:
        """Split the one stream of Docker into the two pipes: each piece begins with its stream number and its
        length."""
        try:
            while head := self._exactly(8):
                left = int.from_bytes(head[4:], "big")
                while left:
                    piece = self._receive(min(left, _CHUNK))
                    if not piece:
                        return
                    left -= len(piece)
                    view = memoryview(piece)
                    while view:
                        view = view[os.write(pipes[head[0]], view) :]
        except OSError:
            return  # closed by us
        finally:
            for fd in (*pipes.values(), self._end):
                os.close(fd)

    def _receive(self, size: int) -> bytes:
        while True:
            select.select([self._socket], [], [])
            with suppress(BlockingIOError):  # a session writes into it without waiting
                return self._socket.recv(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._receive(size - len(data))
            if not piece:
                return b""
            data += piece
        return data


class ContainerSupervisor:
    """Sends requests to the supervisor script of one container. Use it from one thread at a time."""

    def __init__(self, api: Any, container: str) -> None:
        self._exec = Exec(api, container, ["/bin/sh", "-c", _SUPERVISOR_SCRIPT], user="0")

    def mark(self) -> int:
        """The present moment, in clock ticks since boot, for ``reap``."""
        return self._ask("mark")

    def reap(self, mark: int, spared: Sequence[int] = (), *, limit_s: float = _ANSWER_S) -> int:
        """Kill what was started since ``mark``, except the processes in ``spared``.

        Returns how many processes of the container the kernel has killed for their memory up to now.
        """
        return self._ask(f"reap {mark} {' '.join(map(str, spared))}", limit_s)

    def close(self) -> None:
        """Close its pipes and socket."""
        self._exec.close()

    def _ask(self, order: str, limit_s: float = _ANSWER_S) -> int:
        end_s, answer = time.monotonic() + limit_s, b""
        try:
            os.write(self._exec.stdin, order.encode() + b"\n")
        except OSError as error:
            raise EnvError(f"the container of the sandbox has ended: {error}") from error
        while not answer.endswith(b"\n"):
            ready = select.select([self._exec.stdout], [], [], max(0.0, end_s - time.monotonic()))[0]
            piece = os.read(self._exec.stdout, _CHUNK) if ready else b""
            if not piece:
                raise EnvError(f"the container of the sandbox did not do '{order.split()[0]}' within {limit_s:g} s")
            answer += piece
        if not answer.strip().isdigit():
            said = answer.decode(errors="replace").strip()
            raise EnvError(f"the supervisor of the container answered '{said}' instead of a number")
        return int(answer)
