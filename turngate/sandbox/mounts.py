"""The file system that the commands of a sandbox see. It is mounted before the first command, because mounts take time.

The launcher mounts what all sandboxes share (``/usr``, ``/etc``, devices) once, read-only, at ``MountPlan.root``. Then
it leaves the host's mounts behind (``leave_host``). Each supervisor starts with a copy of these mounts and adds the
folders of its sandbox, which lie on one memory file system of bounded size, at ``MountPlan.private``. For a command,
bubblewrap takes ``MountPlan.root`` as its root and only adds a fresh ``/proc``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from turngate.sandbox import linux
from turngate.sandbox.base import FOLDERS, TMP
from turngate.sandbox.confinement import SYSTEM, links_to
from turngate.sandbox.trees import copy_tree

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}
_EMPTY = ("run", "var", "proc", "dev/pts", "dev/shm", *(place.lstrip("/") for place in FOLDERS.values()))
_OCTAL = re.compile(rb"\\([0-7]{3})")  # how the kernel writes a space in a path
_SAFE = linux.MS_NOSUID | linux.MS_NODEV
FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """Where the launcher and its supervisors find things, and the limits of a sandbox."""

    store: str
    """The folder of the back end; all paths below lie in it."""
    bwrap: str
    filter: str
    shown: dict[str, str]
    """Inside → on the host, from ``confinement.real_places``."""
    limits: dict[str, int]
    overlay: bool

    @property
    def root(self) -> str:
        """The folder that a command sees as ``/``."""
        return f"{self.store}/root"

    @property
    def private(self) -> str:
        """Where each supervisor, in mounts of its own, has the file system with its sandbox's files."""
        return f"{self.store}/private"

    def layer(self, name: str) -> str:
        """The folder of a layer."""
        return f"{self.store}/layers/{name}"


def mount_system(plan: MountPlan) -> None:
    """Mount the part of the file system that all sandboxes share. Raises OSError."""
    root = plan.root
    linux.mount("tmpfs", root, "tmpfs", _SAFE, "size=4m,mode=0755")
    for name in _EMPTY:
        os.makedirs(f"{root}/{name}", exist_ok=True)
    os.symlink(TMP, f"{root}/var/tmp")
    _show("/usr", f"{root}/usr")
    for path in SYSTEM:
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.isdir(path):
            _show(path, root + path)
    _show(f"{plan.store}/etc", f"{root}/etc")
    for name in _DEVICES:
        _make_place(f"/dev/{name}", f"{root}/dev/{name}")
        linux.mount(f"/dev/{name}", f"{root}/dev/{name}", "none", linux.MS_BIND, "")
        _restrict(f"{root}/dev/{name}", linux.MS_NOSUID)
    for name, goal in _DEVICE_LINKS.items():
        os.symlink(goal, f"{root}/dev/{name}")
    for inside, host in plan.shown.items():
        _show(host, root + inside)
    for host, inside in links_to(plan.shown).items():
        os.makedirs(os.path.dirname(root + host), exist_ok=True)
        os.symlink(inside, root + host)
    _restrict(root, _SAFE | linux.MS_RDONLY)


def leave_host(plan: MountPlan) -> None:
    """Give this process a root directory that holds only what it needs; call it after ``mount_system``.

    A command begins with a copy of all mounts of its supervisor, and bubblewrap reads their list several times; a host
    may have hundreds. And a program that breaks out of bubblewrap finds this root, which holds programs but no data.
    """
    stage = plan.private  # any folder would do, because nothing is seen of its place afterwards
    linux.mount("tmpfs", stage, "tmpfs", _SAFE, "size=1m,mode=0755")
    _show_program(plan.bwrap, stage)
    for name in ("/usr", "/etc", *SYSTEM):
        if os.path.lexists(plan.root + name):
            os.symlink(plan.root + name, stage + name)
    for name in ("/tmp", "/proc", plan.store):  # bubblewrap begins to build in /tmp
        os.makedirs(stage + name, exist_ok=True)
    linux.mount("/proc", f"{stage}/proc", "none", linux.MS_BIND | linux.MS_REC, "")
    linux.mount(plan.store, stage + plan.store, "none", linux.MS_BIND, "")
    linux.mount(plan.root, stage + plan.root, "none", linux.MS_BIND | linux.MS_REC, "")
    _restrict(stage, _SAFE | linux.MS_RDONLY)
    linux.enter_root(stage)


def _show_program(path: str, stage: str) -> None:
    """Show a program that lies outside of the system's folders, with the libraries that it may have beside it."""
    if path.startswith(("/usr/", *(f"{name}/" for name in SYSTEM))):
        return
    prefix = os.path.dirname(os.path.dirname(path))
    place = path if prefix == "/" else prefix
    _show(place, stage + place)


def mount_private(plan: MountPlan) -> None:
    """Mount the folders of one sandbox, empty, for this process only; ``mount_work`` adds ``/work``."""
    root, private = plan.root, plan.private
    size, inodes = plan.limits["disk_bytes"], plan.limits["files"] + 16
    linux.mount("tmpfs", private, "tmpfs", _SAFE, f"size={size},nr_inodes={inodes},mode=0755")
    for name in ("work", "tmp", "home", "shm", "upper", "scratch"):
        os.mkdir(f"{private}/{name}", FOLDER_MODE)
    for name, place in (("tmp", FOLDERS["tmp"]), ("home", FOLDERS["home"]), ("shm", "/dev/shm")):
        linux.mount(f"{private}/{name}", root + place, "none", linux.MS_BIND, "")
    flags = linux.MS_NOSUID | linux.MS_NOEXEC  # pseudo terminals that no other sandbox can open
    linux.mount("devpts", f"{root}/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")


def mount_work(plan: MountPlan, layers: list[str]) -> None:
    """Mount ``/work`` and fill the folders from a snapshot. ``layers``: names of its layers, the lowest first."""
    if plan.overlay:
        _mount_overlay(plan, [*layers] or ["empty"])
    else:
        linux.mount(f"{plan.private}/work", f"{plan.root}/work", "none", linux.MS_BIND, "")
        if layers:
            copy_tree(f"{plan.layer(layers[-1])}/work", f"{plan.private}/work")
    for name in ("tmp", "home") if layers else ():
        kept = f"{plan.layer(layers[-1])}/{name}"
        if os.path.isdir(kept):  # missing where nothing had been written to it
            copy_tree(kept, f"{plan.private}/{name}")


def _mount_overlay(plan: MountPlan, layers: list[str]) -> None:
    """Mount ``/work`` as an overlay of the layers, the last one on top; changes go into the folder ``upper``."""
    top = os.stat(f"{plan.layer(layers[-1])}/work")  # a folder's own mode is that of its uppermost layer
    os.chmod(f"{plan.private}/upper", stat.S_IMODE(top.st_mode))
    os.chdir(f"{plan.store}/layers")  # the options must fit into one page, so the paths in them are short
    lower = ":".join(f"{name}/work" for name in reversed(layers))
    options = f"lowerdir={lower},upperdir={plan.private}/upper,workdir={plan.private}/scratch,userxattr"
    linux.mount("overlay", f"{plan.root}/work", "overlay", _SAFE, options)
    os.chdir("/")


def _show(source: str, target: str) -> None:
    """Bind-mount a file or folder, with all mounts below it, read-only."""
    _make_place(source, target)
    linux.mount(source, target, "none", linux.MS_BIND | linux.MS_REC, "")
    _restrict(target, _SAFE | linux.MS_RDONLY)
    for place in mounts_at(target):
        with suppress(PermissionError):  # it lies below a folder that this user may not pass, and so no command may
            _restrict(place, _SAFE | linux.MS_RDONLY)


def _make_place(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def _restrict(target: str, flags: int) -> None:
    """Add flags to a mount. The kernel wants those that it already has to be named again."""
    present = os.statvfs(target).f_flag & (_SAFE | linux.MS_RDONLY | linux.MS_NOEXEC)
    linux.mount("none", target, "none", linux.MS_REMOUNT | linux.MS_BIND | present | flags, "")


def mounts_at(target: str) -> Iterator[str]:
    """The mount at ``target`` and those below it. ``target`` contains no link."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            place = os.fsdecode(_OCTAL.sub(lambda found: bytes([int(found[1], 8)]), line.split(b" ")[4]))
            if place == target or place.startswith(target + "/"):
                yield place
