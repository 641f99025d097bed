"""Copying folder trees, exactly enough to continue working in the copy, and safely where an agent made the content.

Links are copied as links and never followed, hard links inside the tree stay hard links, fifos are made anew and not
opened, and holes of files stay holes only on file systems that share blocks. A file is cloned (reflink) where the file
system can, else copied by the kernel. There is no cheaper form that is safe: a process in the sandbox writes a file in
place, so a copy made of hard links would change together with its original.

Also the marks of overlayfs are copied: a *whiteout* (a device 0:0, "deleted here") and ``user.overlay.*`` attributes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from turngate.sandbox.linux import clone_file

MAX_DEPTH = 200  # a deeper tree is an attack on the program that walks it
_CHUNK = 1 << 26


@dataclass(slots=True)
class _Copy:
    """The state of one copy. ``owner``: user id that the files are given to, None for that of this process."""

    owner: int | None
    reflink: bool = True
    links: dict[tuple[int, int], str] = field(default_factory=dict)


def copy_tree(source: str, target: str, *, owner: int | None = None) -> None:
    """Copy the content of folder ``source`` into folder ``target``, which is made if it does not exist.

    ``owner``: user id that the files are given to; None for that of this process.

    Raises OSError: ELOOP if the tree is deeper than ``MAX_DEPTH``, EINVAL for a device or a socket in it.
    """
    copy = _Copy(owner)
    os.makedirs(target, exist_ok=True)
    folders = [(source, target, 0)]
    finish: list[tuple[os.stat_result, str]] = []
    while folders:
        origin, goal, depth = folders.pop()
        if depth > MAX_DEPTH:
            raise OSError(errno.ELOOP, f"the folder is nested deeper than {MAX_DEPTH}", origin)
        finish.append((os.stat(origin), goal))
        _copy_attributes(origin, goal)
        with os.scandir(origin) as entries:
            for entry in entries:
                below = f"{goal}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    os.makedirs(below, exist_ok=True)
                    folders.append((entry.path, below, depth + 1))
                else:
                    _copy_one(copy, entry.path, below, entry.stat(follow_symlinks=False))
    for status, goal in reversed(finish):  # last, so that a folder without write permission can be filled
        _finish(copy, status, goal)


def _copy_one(copy: _Copy, source: str, target: str, status: os.stat_result) -> None:
    key = (status.st_dev, status.st_ino)
    if status.st_nlink > 1:
        if key in copy.links:
            os.link(copy.links[key], target, follow_symlinks=False)
            return
        copy.links[key] = target
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        _copy_content(copy, source, target)
        _finish(copy, status, target)
    elif kind == stat.S_IFLNK:
        os.symlink(os.readlink(source), target)
        _own(copy, target)
    elif kind == stat.S_IFIFO:
        os.mkfifo(target, stat.S_IMODE(status.st_mode))
        _own(copy, target)
    elif kind == stat.S_IFCHR and status.st_rdev == 0:
        os.mknod(target, stat.S_IFCHR, 0)
    elif kind == stat.S_IFSOCK:
        pass  # the process that listened on it is not copied, so nothing can answer
    else:
        raise OSError(errno.EINVAL, "a device cannot be copied", source)


def _copy_content(copy: _Copy, source: str, target: str) -> None:
    origin = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        goal = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            copy.reflink = copy.reflink and clone_file(origin, goal)
            if not copy.reflink:
                while os.sendfile(goal, origin, None, _CHUNK):
                    pass
        finally:
            os.close(goal)
    finally:
        os.close(origin)
    _copy_attributes(source, target)


def _copy_attributes(source: str, target: str) -> None:
    for name in _overlay_attributes(source):
        os.setxattr(target, name, os.getxattr(source, name))


def _overlay_attributes(path: str) -> Iterator[str]:
    try:
        names = os.listxattr(path)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return
        raise
    yield from (name for name in names if name.startswith("user.overlay."))


def _finish(copy: _Copy, status: os.stat_result, target: str) -> None:
    _own(copy, target)
    kept = 0o3777 if stat.S_ISDIR(status.st_mode) else 0o1777  # no program that runs as another user
    os.chmod(target, stat.S_IMODE(status.st_mode) & kept)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _own(copy: _Copy, target: str) -> None:
    if copy.owner is not None:
        os.chown(target, copy.owner, copy.owner, follow_symlinks=False)
