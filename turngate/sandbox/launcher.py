"""The launcher: one helper process per back end, which forks the supervisor process of each sandbox.

It is a fresh interpreter with little in it, so a fork takes a millisecond or two however large the training process is
(a *zygote*). It loads what it needs before it gives up root. If it is started as root, it switches to an ordinary user
id that no other process has; a program that breaks out of its sandbox has no more rights than that user. The launcher
ends when the process that it serves does, and all sandboxes and their files with it.

``LAUNCH`` starts it without the package's own imports (numpy and more), of which it needs none.
"""

from __future__ import annotations

import gc
import os
import select
import shutil
import signal
import socket
import stat
import sys
from contextlib import suppress
from dataclasses import replace

from turngate.sandbox import linux, messages
from turngate.sandbox.mounts import MountPlan, leave_host, mount_private, mount_system, mount_work, mounts_at
from turngate.sandbox.supervisor import Supervisor

LAUNCH = """
import sys, types
root, channel, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for name, below in (("turngate", ""), ("turngate.sandbox", "/sandbox")):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [root + below]
from turngate.sandbox.launcher import serve
serve(channel, parent)
"""


def serve(channel_fd: int, parent: int) -> None:
    """The main function of the launcher process; returns when the process may end.

    ``channel_fd``: its end of the channel to the library. ``parent``: process id of the library.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is for the library to handle
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel = socket.socket(fileno=channel_fd)
    parent_fd = os.pidfd_open(parent)
    request, _files = messages.receive(channel)
    plan = MountPlan(**request["plan"])
    try:
        os.umask(0o022)
        if request["uid"] is not None:
            _open_ways(list(plan.shown.values()))
        _become(request["uid"])
        linux.enter_user_namespace()
        mount_system(plan)
        above = os.open(os.path.dirname(plan.store), os.O_PATH | os.O_DIRECTORY)
        leave_host(plan)
    except OSError as error:
        messages.send(channel, {"error": str(error)})
        return
    gc.freeze()  # the collector never looks at present objects again, so supervisors share their memory
    plan, storage = _choose_storage(plan, request["storage"])
    messages.send(channel, {"storage": storage, "overlay": plan.overlay})
    _work(plan, channel, parent_fd, above)


def _open_ways(shown: list[str]) -> None:
    """Let an ordinary user reach the shown paths that lie below folders only root may enter, such as root's home.

    Each such folder is covered by an empty one, in mounts of this process, into which only the shown paths are bound.
    """
    closed = {path: folder for path in shown if (folder := _closed_folder(path))}
    if not closed:
        return
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", "none", linux.MS_REC | linux.MS_PRIVATE, "")
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in closed}
    for folder in sorted(set(closed.values())):
        linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0755")
    for path, fd in sorted(opened.items()):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDONLY))
        linux.mount(f"/proc/self/fd/{fd}", path, "none", linux.MS_BIND | linux.MS_REC, "")
        os.close(fd)


def _closed_folder(path: str) -> str | None:
    """The first folder above ``path`` that not every user may enter; None if there is none."""
    above = path.split("/")[1:-1]
    folders = ["/" + "/".join(above[:depth]) for depth in range(1, len(above) + 1)]
    return next((folder for folder in folders if not os.stat(folder).st_mode & stat.S_IXOTH), None)


def _become(uid: int | None) -> None:
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def _work(plan: MountPlan, channel: socket.socket, parent_fd: int, above: int) -> None:
    """Serve requests until the library is gone. ``above``: the folder that the store lies in, as an open file, because
    its path no longer exists for this process."""
    own = (channel.fileno(), parent_fd, above)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(parent_fd, select.POLLIN)
    linux.adopt_orphans()
    supervisors: set[int] = set()
    while True:
        ready = {fd for fd, _event in poll.poll(1000)}
        ended = _reaped()
        supervisors -= ended
        if ended or not ready:
            _end_orphans(supervisors)
        if parent_fd in ready:
            break
        if channel.fileno() not in ready:
            continue
        try:
            message, files = messages.receive(channel)
        except (EOFError, ConnectionError):
            break
        if message["do"] == "open":
            supervisors.add(_fork_supervisor(plan, own, files))
        elif message["do"] == "forget":
            _remove(plan.layer(message["layer"]))
        for fd in files:
            os.close(fd)
    _end(plan, supervisors, above)


def _fork_supervisor(plan: MountPlan, own: tuple[int, ...], files: list[int]) -> int:
    """Fork a supervisor and return its process id. ``own``: open files of the launcher that it must not keep."""
    launcher = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        for fd in own:
            os.close(fd)
        _die_with(launcher)
        Supervisor(plan, socket.socket(fileno=files[0])).serve(files[1:])
    except BaseException as error:  # the process was forked inside the launcher's loop and must never return to it
        sys.stderr.write(f"turngate: the supervisor process of a sandbox broke: {error!r}\n")
    finally:
        os._exit(0)


def _die_with(launcher: int) -> None:
    linux.die_with_parent()
    if os.getppid() != launcher:  # it ended before the kernel was told to end this process with it
        os._exit(0)


def _reaped() -> set[int]:
    done = set()
    with suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) > 0:
            done.add(pid)
    return done


def _end_orphans(supervisors: set[int]) -> None:
    """Kill each bubblewrap process that outlived its supervisor; the kernel makes it a child of this process."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
        children = {int(word) for word in file.read().split()}
    for pid in children - supervisors:
        os.kill(pid, signal.SIGKILL)  # a child of this process, so the number is its own until it is waited for


def _end(plan: MountPlan, supervisors: set[int], above: int) -> None:
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    for pid in supervisors:
        os.waitpid(pid, 0)
    linux.unmount(plan.root)
    if left := {*mounts_at(plan.store)} - {plan.store}:  # never: below them lie folders of the host
        raise RuntimeError(f"the store of the sandboxes is not removed, because of the mounts {left}")
    for name in os.listdir(plan.store):
        _remove(f"{plan.store}/{name}")
    with suppress(OSError):  # folders that could not be removed were reported
        os.rmdir(os.path.basename(plan.store), dir_fd=above)


def _remove(path: str) -> None:
    """Remove a file or folder. This process may enter any folder of its user, also one whose permissions an agent took
    away."""
    try:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # disk is lost, but the sandboxes go on
        sys.stderr.write(f"turngate: '{path}' cannot be removed: {error}\n")


# --- which form of copy-on-write this machine allows ------------------------------------------------------------------


def _choose_storage(plan: MountPlan, wanted: str) -> tuple[MountPlan, str]:
    """The plan with its way of copying, and that way in words. ``wanted``: ``auto``, ``overlay`` or ``copy``."""
    if wanted == "copy":
        return replace(plan, overlay=False), "full copies, as asked"
    problem = _try_overlay(plan)
    if problem is None:
        return replace(plan, overlay=True), "overlayfs"
    return replace(plan, overlay=False), f"full copies, because overlayfs failed: {problem}"


def _try_overlay(plan: MountPlan) -> str | None:
    """Try an overlay: mount it, and replace a folder in it, which not every kernel allows. Returns the failure; None if
    it works.
    """
    probe = plan.layer("probe")
    for name in ("work/folder", "tmp", "home"):
        os.makedirs(f"{probe}/{name}")
    with open(f"{probe}/work/folder/file", "w", encoding="utf-8") as file:
        file.write("below")
    back, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        message = b""
        try:
            linux.unshare(linux.CLONE_NEWNS)
            mount_private(plan)
            mount_work(replace(plan, overlay=True), ["probe"])
            shutil.rmtree(f"{plan.root}/work/folder")
            os.mkdir(f"{plan.root}/work/folder")
            if os.listdir(f"{plan.root}/work/folder"):
                message = b"a folder that was removed and made again shows its old content"
        except OSError as error:
            message = str(error).encode()
        finally:
            os.write(end, message)
            os._exit(0)
    os.close(end)
    os.waitpid(pid, 0)
    with os.fdopen(back, "rb") as file_end:
        problem = file_end.read().decode()
    _remove(probe)
    return problem or None
