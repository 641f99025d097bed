"""Ending all processes of a tree, also those that detach themselves or start others while they are being killed.

Imports nothing of ours, because the helper processes of sandboxes load it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress


def end_all(find: Callable[[], Iterable[int]], end_s: float) -> bool:
    """Kill the processes that ``find`` lists until none of them lives; whether that was so by ``end_s`` (monotonic
    clock).

    They are stopped first, so that they start no others while the rest is being listed. One that was killed is waited
    for also where ``find`` no longer lists it: it may be below another parent while it is still dying.
    """
    struck: dict[int, str] = {}  # start times: an id that is used again is another process
    while time.monotonic() < end_s:
        dying = [pid for pid, start in struck.items() if is_alive(pid) and _started(pid) == start]
        doomed = list(dict.fromkeys([*dying, *(pid for pid in find() if is_alive(pid))]))
        if not doomed:
            return True
        struck = {pid: _started(pid) for pid in doomed}
        for order in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                with suppress(ProcessLookupError):
                    os.kill(pid, order)
    return False


def is_alive(pid: int, since_ticks: int = 0) -> bool:
    """Whether a process exists, is no zombie, and started at ``since_ticks`` (clock ticks since boot) or later."""
    fields = _fields(pid)
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) >= since_ticks


def now_ticks() -> int:
    """Clock ticks since boot: the unit in which the kernel tells when a process started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def processes() -> Iterator[int]:
    """The ids of all processes; none where there is no ``/proc``."""
    with suppress(OSError):
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit())


def processes_below(pid: int) -> list[int]:
    """Ids of every process that ``pid`` started, directly or not, also of zombies."""
    children: dict[int, list[int]] = {}
    for child in processes():
        if fields := _fields(child):
            children.setdefault(int(fields[1]), []).append(child)
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _started(pid: int) -> str:
    """When it started, in clock ticks since boot; nothing if there is no such process."""
    return "".join(_fields(pid)[19:20])


def _fields(pid: int) -> list[str]:
    """State, parent and so on, as in proc(5) from the third field; nothing if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
