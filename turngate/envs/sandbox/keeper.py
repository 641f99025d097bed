"""The keeper of one sandbox: a small process beside it, outside of it, that holds its files and starts its commands.

The keeper is forked from the holder (``holder.py``), so it is root of a user namespace in which only one ordinary user
exists. It has mounts of its own: they, and with them all files of the sandbox, vanish when it ends. Below ``cell`` lies
one memory file system of bounded size; ``work`` in it is an overlay on the read-only layers where overlays are allowed,
else a full copy.

The library asks over a channel; each running command has a channel of its own, on which the keeper tells that it
started and how it ended. The keeper enforces the deadlines, because the library's process may be busy with something.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from turngate.envs.sandbox import linux, wire
from turngate.envs.sandbox.cage import place_arguments
from turngate.envs.sandbox.digests import Known, digest_tree, pack
from turngate.envs.sandbox.files import file_of
from turngate.envs.sandbox.trees import copy_tree

STATE = ("work", "tmp", "home")  # the folders of a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the holder knows about the sandboxes that it opens; paths lie in the store."""

    store: str
    bwrap: str
    filter: str
    arguments: list[str]
    limits: dict[str, int]
    overlay: bool

    @property
    def cell(self) -> str:
        """Where each keeper, in mounts of its own, has its file system."""
        return f"{self.store}/cell"

    def layer(self, name: str) -> str:
        """The folder of a layer."""
        return f"{self.store}/layers/{name}"


@dataclass(slots=True)
class _Run:
    """One command under way. ``init``: the first process of its namespace; when it is gone, all are."""

    number: int
    monitor: subprocess.Popen[bytes]
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


class Keeper:
    """Serves one sandbox until its channel closes."""

    def __init__(self, plan: Plan, channel: socket.socket, layers: list[str], groups: list[int]) -> None:
        """``groups``: open ``cgroup.procs`` files, for this process and so for all that it starts."""
        self._plan, self._channel, self._layers, self._groups = plan, channel, layers, groups
        self._runs: dict[int, _Run] = {}
        self._roots: dict[str, int] = {}
        self._known: Known = {}
        self._poll = select.poll()

    def serve(self) -> None:
        """Until the library closes the channel or is gone; then every command ends with this process."""
        linux.adopt_orphans()  # the first process of a command outlives bubblewrap's monitor by a moment
        try:
            for group in self._groups:
                os.write(group, b"0")
                os.close(group)
            mount_cell(self._plan, self._layers)
            self._roots = {name: os.open(f"{self._plan.cell}/{name}", os.O_PATH | os.O_DIRECTORY) for name in STATE}
        except OSError as error:
            wire.send(self._channel, _refusal(error))
            return
        wire.send(self._channel, {"ok": True}, [os.pidfd_open(os.getpid())])
        self._poll.register(self._channel, select.POLLIN)
        while True:
            for fd, _event in self._poll.poll(self._patience_ms()):
                if fd == self._channel.fileno():
                    try:
                        message, files = wire.receive(self._channel)
                    except (EOFError, ConnectionError):
                        return
                    self._answer(message, files)
            self._look_after()

    def _answer(self, message: wire.Message, files: list[int]) -> None:
        try:
            if message["do"] == "run":
                self._start(message, files)
                return
            reply, opened = self._serve_one(message)
            wire.send(self._channel, reply, opened)
            for fd in opened:
                os.close(fd)
        except OSError as error:
            wire.send(self._channel, _refusal(error))
        finally:
            for fd in files:
                os.close(fd)

    def _serve_one(self, message: wire.Message) -> tuple[wire.Message, list[int]]:
        match message["do"]:
            case "read":
                return {"ok": True}, [self._open(message, os.O_RDONLY | os.O_NONBLOCK)]
            case "list":
                return {"ok": True}, [self._open(message, os.O_RDONLY | os.O_DIRECTORY)]
            case "tree":
                return {"ok": True}, [self._tree(message)]
            case "write":
                return {"ok": True}, [self._create(message)]
            case "snapshot":
                self._snapshot(message["layer"])
                return {"ok": True}, []
            case "reap":
                run = self._runs.get(message["run"])
                clean = run is not None and reap(run.init_pid, message["since_ticks"], message["end_s"])
                return {"ok": True, "clean": clean}, []
        return {"error": f"unknown request '{message['do']}'", "errno": errno.EINVAL}, []

    # --- files --------------------------------------------------------------------------------------------------------

    def _open(self, message: wire.Message, flags: int) -> int:
        fd = linux.open_in(self._roots[message["folder"]], message["path"], flags | os.O_NOCTTY)
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) != bool(flags & os.O_DIRECTORY):
            os.close(fd)
            raise OSError(errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL, "not a regular file")
        return fd

    def _tree(self, message: wire.Message) -> int:
        folder = self._open(message, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return file_of("tree", pack(digest_tree(folder, self._known)))
        finally:
            os.close(folder)

    def _create(self, message: wire.Message) -> int:
        """In place, not renamed over it, so that hard links and the file's identity stay."""
        root, path = self._roots[message["folder"]], message["path"]
        parts = [part for part in path.split("/")[:-1] if part not in ("", ".")]
        for depth in range(1, len(parts) + 1):
            above = linux.open_in(root, "/".join(parts[: depth - 1]) or ".", os.O_PATH | os.O_DIRECTORY)
            try:
                os.mkdir(parts[depth - 1], 0o755, dir_fd=above)
            except FileExistsError:
                pass
            finally:
                os.close(above)
        mode = 0o755 if message["executable"] else 0o644
        fd = linux.open_in(root, path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY, mode)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file")
        os.fchmod(fd, mode)
        return fd

    def _snapshot(self, layer: str) -> None:
        """Copy what this sandbox has of its own. The layers below it are shared."""
        target = self._plan.layer(layer)
        os.mkdir(target)
        changed = "upper" if self._plan.overlay else "work"
        for source, name in ((changed, "work"), ("tmp", "tmp"), ("home", "home")):
            copy_tree(f"{self._plan.cell}/{source}", f"{target}/{name}")

    # --- commands -----------------------------------------------------------------------------------------------------

    def _start(self, message: wire.Message, files: list[int]) -> None:
        """``files``: standard input, output and errors; the status channel; then more that the command inherits."""
        status = socket.socket(fileno=os.dup(files[3]))
        try:
            run = self._launch(message, files[:3], files[4:], status)
        except OSError as error:
            with suppress(OSError):
                wire.send(status, _refusal(error))
            status.close()
            return
        self._runs[run.number] = run
        for fd in (run.monitor_fd, run.init_fd):
            self._poll.register(fd, select.POLLIN)
        with suppress(OSError):
            wire.send(status, {"started": True}, [run.init_fd])

    def _launch(self, message: wire.Message, streams: list[int], extra: list[int], status: socket.socket) -> _Run:
        report, report_end = os.pipe2(os.O_CLOEXEC)
        gate_end, gate = os.pipe2(os.O_CLOEXEC)
        names = {f"@{number}" for number in range(len(extra))}  # stand for the numbers of further files
        filter_fd = os.open(self._plan.filter, os.O_RDONLY | os.O_CLOEXEC)
        lines = [*self._plan.arguments, *place_arguments(self._plan.cell, message["cwd"], message["env"])]
        lines += ["--seccomp", str(filter_fd), "--json-status-fd", str(report_end), "--block-fd", str(gate_end)]
        argv = [str(extra[int(word[1:])]) if word in names else word for word in message["argv"]]
        lines_fd = os.memfd_create("arguments", os.MFD_CLOEXEC)
        os.write(lines_fd, b"\0".join(os.fsencode(line) for line in lines) + b"\0")
        os.lseek(lines_fd, 0, os.SEEK_SET)
        try:
            monitor = subprocess.Popen(
                [self._plan.bwrap, "--args", str(lines_fd), "--", *argv],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                pass_fds=(filter_fd, report_end, gate_end, lines_fd, *extra),
                env={},
                cwd="/",
                start_new_session=True,
            )
        finally:
            for fd in (filter_fd, report_end, gate_end, lines_fd):
                os.close(fd)
        try:
            init_pid = _first_line(report).get("child-pid")
            if init_pid is None:
                monitor.wait()
                raise OSError(errno.ECHILD, "bubblewrap could not build the sandbox; its message is in stderr")
            run = _Run(
                number=message["run"],
                monitor=monitor,
                monitor_fd=os.pidfd_open(monitor.pid),
                init_pid=init_pid,
                init_fd=os.pidfd_open(init_pid),
                status=status,
                report_fd=report,
                end_s=message["end_s"],
            )
            self._limit(init_pid)
        except OSError:
            monitor.kill()
            monitor.wait()
            os.close(report)
            raise
        finally:
            os.close(gate)  # from here on the command runs, if there is one
        return run

    def _limit(self, pid: int) -> None:
        """Before the command starts. Not before its user namespace exists: processes are counted in each apart."""
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

    def _patience_ms(self) -> int | None:
        ends = [run.end_s for run in self._runs.values() if run.end_s is not None and run.killed is None]
        return max(0, int((min(ends) - time.monotonic()) * 1000) + 1) if ends else None

    def _look_after(self) -> None:
        now_s = time.monotonic()
        for run in list(self._runs.values()):
            if run.end_s is not None and run.killed is None and now_s >= run.end_s:
                run.kill("deadline")
            if run.monitor.poll() is None:
                continue
            run.kill(run.killed or "")  # bubblewrap's first process ends when its monitor does; this makes it certain
            if not select.select([run.init_fd], [], [], 0)[0]:
                self._ignore(run.monitor_fd)
                continue
            self._settle(run)

    def _ignore(self, fd: int) -> None:
        with suppress(KeyError):
            self._poll.unregister(fd)

    def _settle(self, run: _Run) -> None:
        """The last process is gone: say so, and forget the command."""
        for fd in (run.monitor_fd, run.init_fd):
            self._ignore(fd)
            os.close(fd)
        with suppress(ChildProcessError):  # bubblewrap itself has reaped it
            os.waitpid(run.init_pid, 0)
        exit_code = _last_line(run.report_fd).get("exit-code")  # missing: killed, or it never came to the command
        with suppress(OSError):  # nobody waits for it any more
            wire.send(run.status, {"exit": exit_code, "killed": run.killed or None})
        run.status.close()
        del self._runs[run.number]


def mount_cell(plan: Plan, layers: list[str]) -> None:
    """The file system of one sandbox, in mounts that only this process has. ``layers``: the lowest first."""
    linux.unshare(linux.CLONE_NEWNS)
    size, inodes = plan.limits["disk_bytes"], plan.limits["files"] + 16
    options = f"size={size},nr_inodes={inodes},mode=0755"
    linux.mount("tmpfs", plan.cell, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    for name in ("work", "tmp", "home", "shm", "upper", "scratch"):
        os.mkdir(f"{plan.cell}/{name}", 0o755)
    if plan.overlay:
        mount_overlay(plan, [*layers] or ["empty"])
    elif layers:
        copy_tree(f"{plan.layer(layers[-1])}/work", f"{plan.cell}/work")
    for name in ("tmp", "home") if layers else ():
        copy_tree(f"{plan.layer(layers[-1])}/{name}", f"{plan.cell}/{name}")


def mount_overlay(plan: Plan, layers: list[str]) -> None:
    """``work`` shows the layers, the last one on top, and takes the changes into ``upper``."""
    os.chdir(f"{plan.store}/layers")  # the options must fit into one page, so the paths in them are short
    lower = ":".join(f"{name}/work" for name in reversed(layers))
    options = f"lowerdir={lower},upperdir={plan.cell}/upper,workdir={plan.cell}/scratch,userxattr"
    linux.mount("overlay", f"{plan.cell}/work", "overlay", linux.MS_NOSUID | linux.MS_NODEV, options)


def reap(init_pid: int, since_ticks: int, end_s: float) -> bool:
    """Kill what was started since then, but not the command itself; whether nothing of it is left by ``end_s``.

    They are stopped first, so that the list becomes complete although they may be starting others.
    """
    while time.monotonic() < end_s:
        doomed = [pid for pid in _below(init_pid) if _is_doomed(pid, since_ticks)]
        if not doomed:
            return True
        for order in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                with suppress(ProcessLookupError):
                    os.kill(pid, order)
    return False


def _below(init_pid: int) -> list[int]:
    found: list[int] = []
    queue = [init_pid]
    while queue:
        pid = queue.pop()
        with suppress(OSError):  # it ended meanwhile
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    below = [int(word) for word in file.read().split()]
                queue += below
                found += below
    return found


def _is_doomed(pid: int, since_ticks: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        if fields[0] in "ZX" or int(fields[19]) < since_ticks:
            return False
        with open(f"/proc/{pid}/status") as file:
            numbers = next(line for line in file if line.startswith("NSpid:")).split()
    except (OSError, StopIteration):
        return False  # it ended meanwhile
    return numbers[-1] != "2"  # in its own numbers: 1 is bubblewrap, 2 the command


def _refusal(error: OSError) -> wire.Message:
    return {"error": error.strerror or str(error), "errno": error.errno or errno.EIO}


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
