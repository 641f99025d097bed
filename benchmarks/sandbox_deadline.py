"""Does the deadline of a sandbox end the whole tree in time, every time, on a busy machine?

    python benchmarks/sandbox_deadline.py [--runs 500] [--load 2] [--json FILE]

Each run starts a tree that resists: children that ignore signals, leave their session, fork twice and are stopped. Time
is taken from the deadline to the moment at which the caller has the result; by then no process of the tree may be left,
which a search of all processes on the machine checks apart from what the sandbox says. ``--load``: busy processes per
core beside it. Exit status 1 if a run was late or left something.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from turngate.sandbox import KilledBy, ResourceLimits, open_backend

LIMIT_S = 0.2
TREE = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
for branch in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if branch == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            while branch == 2:
                pass
            time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--load", type=int, default=2, help="busy processes per core")
    parser.add_argument("--deadline", type=float, default=0.5, help="seconds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(arguments.load * (os.cpu_count() or 1))
    ]
    try:
        late_s, left = measure(arguments.runs, arguments.deadline)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    late_s.sort()
    report = {
        "runs": len(late_s),
        "busy_processes": len(busy),
        "in_time": sum(late <= LIMIT_S for late in late_s),
        "median_ms": round(1e3 * late_s[len(late_s) // 2], 2),
        "p99_ms": round(1e3 * late_s[int(len(late_s) * 0.99)], 2),
        "max_ms": round(1e3 * late_s[-1], 2),
        "left_processes": left,
    }
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0 if report["in_time"] == report["runs"] and not left else 1


def measure(runs: int, deadline_s: float) -> tuple[list[float], int]:
    """Seconds from the deadline to the result, for each run; and how many processes were left in all."""
    late_s, left = [], 0
    with open_backend("bubblewrap", ResourceLimits(processes=32)) as backend, backend.open() as sandbox:
        for number in range(runs):
            name = f"tree-{os.getpid()}-{number}"
            result = sandbox.run(["python3", "-c", TREE, name], deadline_s=deadline_s)
            assert result.killed_by is KilledBy.DEADLINE, result
            late_s.append(result.time_s - deadline_s)
            left += alive(name)
    return late_s, left


def alive(name: str) -> int:
    """How many processes of the machine have the word in their command line, and run."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            found += name.encode() in words and (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
