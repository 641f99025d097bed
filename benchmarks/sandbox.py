"""How fast sandboxes start, fork and end, and what 2,000 episodes leave behind.

    python benchmarks/sandbox.py [--episodes 2000] [--docker IMAGE] [--json FILE]

``--docker``: also measure the Docker back end with this image (an id, or a root file system in a tar file).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turngate.sandbox import Backend, Sandbox, open_backend
from turngate.sandbox.base import ENVIRONMENT

CALLS = 200
PYTHON = ("python3", "-c", "pass")
LONG_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--flood-gb", type=float, default=10.0)
    parser.add_argument("--docker", help="an image")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report: dict[str, Any] = {"cores": os.cpu_count(), "without_sandbox": floor()}
    before = remains()
    with open_backend("bubblewrap") as backend:
        report["bubblewrap"] = speeds(backend)
        report["bubblewrap"] |= {name: getattr(backend, name) for name in ("storage", "memory_bound")}
        report["flood"] = flood(backend, arguments.flood_gb)
        report["episodes"] = episodes(backend, arguments.episodes)
    after = remains()
    report["left_behind"] = {name: after[name] - before[name] for name in before}
    if arguments.docker:
        image = Path(arguments.docker) if os.path.exists(arguments.docker) else arguments.docker
        shown = {"/usr": "/usr", "/etc/alternatives": "/etc/alternatives"} if isinstance(image, Path) else {}
        with open_backend("docker", image=image, shown=shown) as backend, backend.open() as sandbox:
            report["docker"] = {"true_ms": median_ms(lambda: run(sandbox, "true"), 30)}
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if any(report["left_behind"].values()) else 0


def speeds(backend: Backend) -> dict[str, float]:
    """Medians of one at a time, and calls per second of as many threads as there are cores."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        kept = backend.keep(folder)
    with backend.open(kept) as sandbox:
        numbers = {
            "true_ms": median_ms(lambda: run(sandbox, "true")),
            "python_ms": median_ms(lambda: run(sandbox, *PYTHON)),
            "fork_ms": fork_ms(sandbox),
            "first_tree_ms": median_ms(sandbox.tree, 1),
            "tree_ms": median_ms(sandbox.tree),
            "reset_ms": median_ms(lambda: backend.open(kept).close()),
        }
        run(sandbox, "find", ".", "-name", "*.py", "-exec", "touch", "{}", "+")  # now every file is the sandbox's own
        numbers["fork_all_changed_ms"] = fork_ms(sandbox, 20)
        with sandbox.session("python") as session:
            numbers["warm_python_per_s"] = 1e3 / median_ms(lambda: session.run("x = 1", deadline_s=LONG_S))
        with sandbox.session("bash") as session:
            numbers["warm_bash_per_s"] = 1e3 / median_ms(lambda: session.run("x=1", deadline_s=LONG_S))
    numbers["true_per_s"] = together(lambda: calls(backend, "true"))
    numbers["python_per_s"] = together(lambda: calls(backend, *PYTHON))
    numbers["cold_python_per_s"] = together(lambda: cold_calls(backend, *PYTHON))
    numbers["true_per_s_per_core"] = numbers["true_per_s"] / (os.cpu_count() or 1)
    numbers["resets_per_s"] = 1e3 / numbers["reset_ms"]
    return {name: round(value, 2) for name, value in numbers.items()}


def fill(folder: Path) -> None:
    """3 MB in 400 files."""
    for number in range(400):
        path = folder / f"package{number % 20}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x = 1  # a line\n" * 480)


def run(sandbox: Sandbox, *argv: str) -> None:
    result = sandbox.run(argv, deadline_s=LONG_S)
    assert result.exit == 0, result


def fork_ms(sandbox: Sandbox, calls: int = CALLS) -> float:
    times = []
    for _ in range(calls):
        start_s = time.perf_counter()
        branch = sandbox.fork()
        times.append(time.perf_counter() - start_s)
        branch.close()
    return 1e3 * statistics.median(times)


def median_ms(action: Callable[[], object], calls: int = CALLS) -> float:
    times = []
    for _ in range(calls):
        start_s = time.perf_counter()
        action()
        times.append(time.perf_counter() - start_s)
    return 1e3 * statistics.median(times)


def floor() -> dict[str, float]:
    """The same programs without a sandbox: no sandbox can be faster than that."""
    numbers = {"true_ms": median_ms(lambda: bare("true")), "python_ms": median_ms(lambda: bare(*PYTHON))}
    numbers["python_per_s"] = together(_many_bare)
    return {name: round(value, 2) for name, value in numbers.items()}


def _many_bare() -> None:
    for _ in range(CALLS):
        bare(*PYTHON)


def bare(*argv: str) -> None:
    program = shutil.which(argv[0], path=ENVIRONMENT["PATH"])
    assert program is not None
    assert os.waitpid(os.posix_spawn(program, argv, ENVIRONMENT), 0)[1] == 0


def calls(backend: Backend, *argv: str) -> None:
    with backend.open() as sandbox:
        for _ in range(CALLS):
            run(sandbox, *argv)


def cold_calls(backend: Backend, *argv: str) -> None:
    """Each in a sandbox that is opened for it and closed again."""
    for _ in range(CALLS):
        with backend.open() as sandbox:
            run(sandbox, *argv)


def together(work: Callable[[], object]) -> float:
    """Calls per second of one thread per core, each of which makes ``CALLS``."""
    threads = [threading.Thread(target=work) for _ in range(os.cpu_count() or 1)]
    start_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(threads) * CALLS / (time.perf_counter() - start_s)


def flood(backend: Backend, gigabytes: float) -> dict[str, float]:
    """How much the memory of this process grows while a command writes that much."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with backend.open() as sandbox:
        result = sandbox.run(["head", "-c", str(int(gigabytes * 1e9)), "/dev/zero"], deadline_s=600)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    return {
        "gigabytes": gigabytes,
        "time_s": round(result.time_s, 2),
        "host_memory_grew_mib": round(grown_kib / 1024, 2),
    }


def episodes(backend: Backend, number: int) -> dict[str, float]:
    """Open, write, run, leave processes behind, close."""
    start_s = time.perf_counter()
    for episode in range(number):
        with backend.open() as sandbox:
            sandbox.write("file", "content")
            sandbox.run(["bash", "-c", "setsid sleep 600 & cat file"], deadline_s=LONG_S)
            if episode % 10 == 0:
                sandbox.fork().close()
                sandbox.session().run("sleep 600 &", deadline_s=LONG_S)
    return {"number": number, "per_s": round(number / (time.perf_counter() - start_s), 2)}


def remains() -> dict[str, int]:
    """Processes, mounts, folders, control groups and open files that a sandbox could have left."""
    time.sleep(0.5)
    return {
        "processes": sum(in_namespace(path) for path in Path("/proc").glob("[0-9]*/status")),
        "mounts": Path("/proc/self/mountinfo").read_text(encoding="utf-8").count("turngate"),
        "folders": len(list(Path(tempfile.gettempdir()).glob("turngate-sandbox-*"))),
        "control_groups": sum("turngate-" in folder for folder, _, _ in os.walk("/sys/fs/cgroup")),
        "open_files": len(os.listdir("/proc/self/fd")),
    }


def in_namespace(status: Path) -> bool:
    """Whether a process lives in a process namespace of its own, as those of a sandbox do."""
    try:
        return any(
            line.startswith("NSpid:") and len(line.split()) > 2
            for line in status.read_text(encoding="utf-8").splitlines()
        )
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
