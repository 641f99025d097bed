"""The supervisor of one sandbox: a small process outside of it, which mounts its files and starts its commands.

The supervisor is forked from the launcher (``launcher.py``), so it is root of a user namespace in which only one
ordinary user exists. It has mounts of its own (``mounts.py``): they, and with them all files of the sandbox, vanish
when it ends. It also has a network, a host name and IPC of its own, which all commands of the sandbox share: a command
can connect to a server that runs in a session. Each command gets process and user namespaces of its own.

Supervisors are started ahead of need, and wait until they are told what /work begins with.

The library sends requests over one channel. Each running command has a second channel, on which the supervisor reports
that it started and how it ended. The supervisor enforces the deadlines, because the library's process may be too busy.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat
from contextlib import suppress

from turngate.sandbox import linux, messages
from turngate.sandbox.base import FOLDERS
from turngate.sandbox.descriptors import file_of
from turngate.sandbox.digests import Known, digest_tree, pack
from turngate.sandbox.mounts import FOLDER_MODE, MountPlan, mount_private, mount_work
from turngate.sandbox.running import Runs, reap, refusal
from turngate.sandbox.trees import copy_tree


class Supervisor:
    """Serves one sandbox until its channel closes."""

    def __init__(self, plan: MountPlan, channel: socket.socket) -> None:
        self._plan, self._channel = plan, channel
        self._roots: dict[str, int] = {}
        self._known: Known = {}
        self._poll = select.poll()
        self._runs = Runs(plan, self._poll)

    def serve(self, groups: list[int]) -> None:
        """Answer requests until the library closes the channel or ends; then every command ends with this process.

        ``groups``: open ``cgroup.procs`` files of the control groups that this process joins, and with it all that it
        starts. The first message says which layers /work begins with.
        """
        linux.adopt_orphans()  # the first process of a command outlives bubblewrap's monitor by a moment
        problem = _prepare(self._plan, groups)
        try:
            order, _files = messages.receive(self._channel)
        except (EOFError, ConnectionError):
            return
        try:
            if problem is not None:
                raise problem
            mount_work(self._plan, order["layers"])
            flags = os.O_PATH | os.O_DIRECTORY
            self._roots = {name: os.open(self._plan.root + place, flags) for name, place in FOLDERS.items()}
        except OSError as error:
            messages.send(self._channel, refusal(error))
            return
        messages.send(self._channel, {"ok": True}, [os.pidfd_open(os.getpid())])
        self._poll.register(self._channel, select.POLLIN)
        while True:
            for fd, _event in self._poll.poll(self._runs.patience_ms()):
                if fd == self._channel.fileno():
                    try:
                        message, files = messages.receive(self._channel)
                    except (EOFError, ConnectionError):
                        return
                    self._answer(message, files)
            self._runs.look_after()

    def _answer(self, message: messages.Message, files: list[int]) -> None:
        try:
            if message["do"] == "run":
                self._runs.start(message, files)
                return
            reply, opened = self._serve_one(message)
            messages.send(self._channel, reply, opened)
            for fd in opened:
                os.close(fd)
        except OSError as error:
            messages.send(self._channel, refusal(error))
        finally:
            for fd in files:
                os.close(fd)

    def _serve_one(self, message: messages.Message) -> tuple[messages.Message, list[int]]:
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
                init_pid = self._runs.init_of(message["run"])
                clean = init_pid is not None and reap(init_pid, message["since_ticks"], message["end_s"])
                return {"ok": True, "clean": clean}, []
        return {"error": f"unknown request '{message['do']}'", "errno": errno.EINVAL}, []

    # --- files --------------------------------------------------------------------------------------------------------

    def _open(self, message: messages.Message, flags: int) -> int:
        fd = linux.open_in(self._roots[message["folder"]], message["path"], flags | os.O_NOCTTY)
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) != bool(flags & os.O_DIRECTORY):
            os.close(fd)
            raise OSError(errno.EISDIR if kind == stat.S_IFDIR else errno.EINVAL, "not a regular file")
        return fd

    def _tree(self, message: messages.Message) -> int:
        folder = self._open(message, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return file_of("tree", pack(digest_tree(folder, self._known)))
        finally:
            os.close(folder)

    def _create(self, message: messages.Message) -> int:
        """Open a file for writing, made if need be. It is written in place, so hard links to it stay."""
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
        """Copy what this sandbox has changed into a new layer. The layers that it began with are shared, not copied."""
        target = self._plan.layer(layer)
        os.mkdir(target)
        private = self._plan.private
        copy_tree(f"{private}/upper" if self._plan.overlay else f"{private}/work", f"{target}/work")
        for name in ("tmp", "home"):
            if not _is_untouched(f"{private}/{name}"):
                copy_tree(f"{private}/{name}", f"{target}/{name}")


def _is_untouched(folder: str) -> bool:
    """Whether a folder is still as ``mount_private`` made it, so that a snapshot can leave it out."""
    return stat.S_IMODE(os.stat(folder).st_mode) == FOLDER_MODE and not os.listdir(folder)


def _prepare(plan: MountPlan, groups: list[int]) -> OSError | None:
    """Do all that can be done before the first message comes. Returns the error if something went wrong."""
    try:
        for group in groups:
            os.write(group, b"0")
            os.close(group)
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
        with suppress(OSError):  # an old kernel has none; then a command sees the name of its group
            linux.unshare(linux.CLONE_NEWCGROUP)
        linux.enter_own_network()
        socket.sethostname("sandbox")
        mount_private(plan)
    except OSError as error:
        return error
    return None
