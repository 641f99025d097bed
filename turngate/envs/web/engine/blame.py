"""The cause of a renderer's end: the page, or something outside."""

from __future__ import annotations

import contextlib
from pathlib import Path

from turngate.envs.web.engine.page_problems import BrowserLost, PageDied

COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))


class OomKills:
    """How often the kernel has killed a process for want of memory, since this object was made."""

    def __init__(self) -> None:
        self._before = _oom_kills()

    def rose(self) -> bool:
        """Whether it happened again."""
        return _oom_kills() > self._before


def _oom_kills() -> int:
    total = 0
    for path in COUNTERS:
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    total += int(count)
    return total


def blame(status: str, out_of_memory: bool) -> PageDied | BrowserLost:
    """The error for a renderer that ended with ``status``, as Chromium's ``Target.targetCrashed`` names it.

    A renderer ends by itself only through the page that runs in it: that is the agent's failure. A renderer that was
    killed by a signal from outside is not, unless the kernel killed something for want of memory meanwhile.
    """
    if status == "killed" and not out_of_memory:
        return BrowserLost("the page's process was killed from outside")
    memory = " for want of memory" if out_of_memory or status == "oom" else ""
    return PageDied("crash", f"the page's process crashed{memory} ({status})")
