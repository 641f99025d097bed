"""The Linux calls that Python does not offer: namespaces, mounts, lookups that cannot leave a folder, cloned files.

Every function raises OSError as the ``os`` module does. Nothing here is imported on another system.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_FICLONE = 0x40049409
_MNT_DETACH = 2
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_SYS_OPENAT2 = 437  # the same number on every architecture
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def unshare(flags: int) -> None:
    """Give this process new namespaces of its own; ``flags`` are the CLONE_* constants."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    """As mount(2)."""
    arguments = (source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(_libc.mount(*arguments), target)


def unmount(target: str) -> None:
    """Detach a mount and all below it; they end when nothing uses them any more."""
    _check(_libc.umount2(os.fsencode(target), _MNT_DETACH), target)


def enter_root(folder: str) -> None:
    """Make a mount the root directory of this process, and detach all other mounts from what it sees."""
    os.chdir(folder)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")  # the old root lies on top of the new one then
    unmount(".")
    os.chdir("/")


def enter_user_namespace() -> None:
    """Become root of a user namespace in which only the present user exists, with mounts of its own."""
    uid, gid = os.geteuid(), os.getegid()
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # else /proc/self is root's after a change of user
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    mount("none", "/", "none", MS_REC | MS_PRIVATE, "")


def enter_own_network() -> None:
    """Give this process a network namespace with only a loopback device, from which the host cannot be reached."""
    unshare(CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants whose own parent ends, so that it can reap them."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def open_in(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Open ``path`` as if the folder behind ``root`` were ``/``: no link and no ``..`` leads out of it."""
    how = _OpenHow(flags | os.O_CLOEXEC, mode, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    call = (ctypes.c_long(_SYS_OPENAT2), root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    return _check(_libc.syscall(*call), path)


def clone_file(source: int, target: int) -> bool:
    """Let ``target`` share the blocks of ``source`` until one is written (reflink); whether the file system can."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True
