"""Control groups of Linux: they bound the memory and the processes of a whole sandbox, where this process may make
them.

Version 2 is used if this process may write to a group that can pass the controllers *memory* and *pids* on to groups
below it, else version 1 if its folders can be written (as root). The supervisor process of a sandbox joins the group of
the sandbox when it starts, so every command starts in it.

In version 2 a group that passes controllers on must not hold processes itself, unless it is the root. So this process
moves into a new group below the one that it was started in (``_enable``); the limits of the old group still apply to
everything. The groups of sandboxes are made outside of it, beside it, where the old group holds other processes too (as
in a login), or where systemd has not delegated it: there systemd would end this process as soon as a process of an
agent was killed for its memory.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal

from turngate.errors import ConfigError, EnvError
from turngate.sandbox.base import CommandResult, KilledBy, ResourceLimits

_SPARE_PROCESSES = 16  # the supervisor and bubblewrap's own, which no limit of the agent's may stop
_CLOSE_S = 5.0
_ROOT, _SYSTEMD = Path("/sys/fs/cgroup"), "/run/systemd/system"
_HANDED_DOWN, _WANTED = "cgroup.subtree_control", "+memory +pids"
_SHELTER = re.compile(r"turngate-\d+-0")


class ControlGroups:
    """Makes a control group for each sandbox, below ``parents``: one folder in version 2, one per controller in version
    1."""

    def __init__(self, kind: str, parents: Sequence[Path], files: dict[str, int], events: str) -> None:
        """``files``: a limit's file → its value. ``events``: the file that counts the processes killed for memory."""
        self.kind, self._files, self._events = kind, files, events
        self._names = count()
        self._parents: list[Path] = []
        try:
            for parent in parents:
                _sweep(parent)
                own = parent / f"turngate-{os.getpid()}-{time.monotonic_ns()}"
                own.mkdir()
                self._parents.append(own)
                if (own / _HANDED_DOWN).exists():
                    (own / _HANDED_DOWN).write_text(_WANTED)
            self.make().close()
        except BaseException:
            self.close()
            raise

    def make(self) -> ControlGroup:
        """A group with the limits set."""
        name = str(next(self._names))
        return ControlGroup([parent / name for parent in self._parents], self._files, self._events)

    def close(self) -> None:
        """Remove the parents; the groups below them must be closed."""
        while self._parents:
            _remove(self._parents.pop())


class ControlGroup:
    """The control group of one sandbox. ``entrances``: open files; a process joins by writing ``0`` to each."""

    def __init__(self, folders: Sequence[Path], files: dict[str, int], events: str) -> None:
        self._folders: list[Path] = []
        self.entrances: list[int] = []
        self._killed = 0
        try:
            for folder in folders:
                folder.mkdir()
                self._folders.append(folder)
                for name, value in files.items():
                    if (folder / name).exists():
                        (folder / name).write_text(str(value))
                self.entrances.append(os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            missing = [name for name in (*files, events) if not any((folder / name).exists() for folder in folders)]
            if any(not name.startswith("memory.swap") for name in missing):
                raise FileNotFoundError(f"no {', '.join(missing)} in {folders[0]}")
            self._events = next(folder / events for folder in folders if (folder / events).exists())
        except BaseException:
            self.close()
            raise

    def judge(self, result: CommandResult) -> CommandResult:
        """``result``, marked as killed for its memory if the kernel has killed a process of the group for that."""
        before = self._killed
        try:
            self._killed = killed = _oom_kills(self._events)
        except FileNotFoundError:  # another thread has closed the sandbox, and with it the group
            return result
        if killed > before and result.exit != 0 and result.killed_by in (None, KilledBy.CLOSED):
            return replace(result, killed_by=KilledBy.MEMORY)
        return result

    def close(self) -> None:
        """Remove the group; its processes must be gone. Safe to repeat."""
        while self.entrances:
            os.close(self.entrances.pop())
        while self._folders:
            _remove(self._folders.pop())


def open_groups(limits: ResourceLimits, wanted: Literal["auto", "require", "off"]) -> ControlGroups | None:
    """Groups that hold ``limits``, or None where none can be made. Raises ConfigError if they are required."""
    if wanted == "off":
        return None
    memory, pids = limits.memory_bytes + limits.disk_bytes, limits.processes + _SPARE_PROCESSES
    v2 = {"memory.max": memory, "memory.swap.max": 0, "pids.max": pids}
    v1 = {"memory.limit_in_bytes": memory, "pids.max": pids}
    problems = []
    for kind, places, files, events in (
        ("control groups, version 2", places_v2(), v2, "memory.events"),
        ("control groups, version 1", _places_v1(), v1, "memory.oom_control"),
    ):
        problem = "not mounted, or no group that this process may use passes 'memory' and 'pids' on"
        for place in places:
            try:
                return ControlGroups(kind, place(), files, events)
            except OSError as error:
                problem = str(error)
        problems.append(f"{kind}: {problem}")
    if wanted == "require":
        raise ConfigError(
            f"groups is 'require', but no control group can be made ({'; '.join(problems)}); run below "
            "systemd-run --user --scope -p Delegate=yes, or as root, or choose 'auto'"
        )
    return None


def places_v2(root: Path = _ROOT, own: str | None = None) -> Iterator[Callable[[], list[Path]]]:
    """Functions that each return a folder to make groups in, or raise OSError; the best first.

    ``own``: the group of this process, as ``/proc`` names it.
    """
    if own is None:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None or not (root / "cgroup.controllers").exists():
        return
    group = root / own.lstrip("/")
    if _SHELTER.fullmatch(group.name):  # where an earlier back end moved this process, or the one that started it
        group = group.parent
    if group == root or not os.path.isdir(_SYSTEMD) or _is_delegated(group):
        yield lambda: [group if _hands_down(group) else _enable(group)]
    for above in group.parents:
        if above.is_relative_to(root) and _hands_down(above):
            yield partial(list, [above])


def _hands_down(group: Path) -> bool:
    try:
        return {"memory", "pids"} <= set((group / _HANDED_DOWN).read_text().split())
    except OSError:  # the group is not in the part that is mounted here
        return False


def _is_delegated(group: Path) -> bool:
    """Whether systemd has delegated ``group``: leaves the groups below it to the processes in it."""
    for name in ("trusted.delegate", "user.delegate"):  # the first can be read by root only
        with suppress(OSError):
            return os.getxattr(group, name) == b"1"
    return False


def _enable(group: Path) -> Path:
    """Let ``group`` pass memory and pids on; for this, this process moves into a group below it. Raises OSError."""
    handed_down = group / _HANDED_DOWN
    try:
        handed_down.write_text(_WANTED)
        return group
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    shelter = group / f"turngate-{os.getpid()}-0"
    shelter.mkdir(exist_ok=True)
    try:
        (shelter / "cgroup.procs").write_text("0")
        handed_down.write_text(_WANTED)
    except OSError as error:
        (group / "cgroup.procs").write_text("0")
        _remove(shelter)
        raise OSError(error.errno, "other processes are in this group too", str(group)) from None
    return group


def _places_v1() -> Iterator[Callable[[], list[Path]]]:
    found = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in ("memory", "pids"):
            root = _ROOT / controller
            if controller in controllers.split(",") and (root / "cgroup.procs").exists():
                found.append(root / path.lstrip("/"))
    if len(found) == 2:
        yield lambda: found


def _oom_kills(events: Path) -> int:
    for line in events.read_text(encoding="utf-8").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def _sweep(parent: Path) -> None:
    """Remove the groups of processes that were killed; their sandboxes ended with them."""
    for name in os.listdir(parent):
        owner = re.fullmatch(r"turngate-(\d+)-\d+", name)
        if owner and not Path("/proc", owner[1]).exists():
            for folder, _, _ in os.walk(parent / name, topdown=False):  # leaves out what vanishes meanwhile
                with suppress(OSError):  # in use after all, or another process removes it too
                    os.rmdir(folder)


def _remove(folder: Path) -> None:
    """Remove a group. It is busy for a moment after its last process ended; what still runs in it is killed."""
    end_s = time.monotonic() + _CLOSE_S
    while True:
        with suppress(FileNotFoundError):
            try:
                folder.rmdir()
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    raise
                if time.monotonic() > end_s:
                    raise EnvError(f"the control group '{folder}' cannot be removed: {error}") from error
                _end_members(folder)
                time.sleep(0.002)
                continue
        return


def _end_members(folder: Path) -> None:
    """Kill the processes of a group, for a sandbox whose supervisor process died and cannot kill them."""
    with suppress(OSError):
        for pid in map(int, (folder / "cgroup.procs").read_text().split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
