"""SIGINT and SIGTERM: the run ends in order, says what is safe and how to go on; the second signal ends it hard."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.small_run import COMMAND, variables, write_config
from tests.helpers.forked_commands import Forked, Forks
from tests.helpers.sessions import running

pytestmark = pytest.mark.timeout(400)  # each command imports torch, which takes long on a busy machine

OWN_SINK = """
import signal, sys, time
from typing import Literal

from turngate.sinks import SinkPart


class Door(SinkPart):
    type: Literal["door"] = "door"
    slow: bool = False

    def open(self, opening):
        return Opened(opening.run.path / "door.txt", self.slow)


class Opened:
    def __init__(self, file, slow):
        self.file, self.slow = file, slow
        file.write_text("open")

    def write(self, step, metrics):
        pass

    def close(self):
        self.file.write_text("closed")
        while self.slow:
            time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """A shell that starts the tests in the background has them ignore SIGINT, and a command would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def start(forked: Forks) -> Iterator[Callable[..., Forked]]:
    """``started``; what a test that fails leaves running is ended."""
    processes = []

    def make(folder: Path, *, slow: bool = False, step: int = 2) -> Forked:
        processes.append(started(forked, folder, slow=slow))
        checkpoints = folder / "runs/lock/checkpoints"  # the last two only, so that of ``step`` may be gone again
        wait_until(lambda: any(int(path.name[5:]) >= step for path in checkpoints.glob("step=*")), processes[-1])
        return processes[-1]

    yield make
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def started(forked: Forks, folder: Path, *, slow: bool) -> Forked:
    """A run of many steps."""
    sink = f'\n[[sink]]\ntype = "door:Door"\nslow = {str(slow).lower()}\n'
    (folder / "door.py").write_text(OWN_SINK)
    write_config(folder, steps=5000, after=sink)
    words = ["train", "lock.toml", "--train.group_size=3"]
    return forked.start(*words, cwd=folder, env=variables(), start_new_session=True)


def wait_until(true: Callable[[], bool], process: Forked) -> None:
    until = time.monotonic() + 300
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGINT, "SIGINT", 130), (signal.SIGTERM, "SIGTERM", 143)])
def test_a_signal_ends_a_run_in_order_and_says_how_to_go_on(
    number: signal.Signals, name: str, code: int, tmp_path: Path, start: Callable[..., Forked]
) -> None:
    process = start(tmp_path)
    process.send_signal(number)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == code
    done = max(int(path.name[5:]) for path in (tmp_path / "runs/lock/checkpoints").glob("step=*"))
    advice = f"step {done} of 5000 is safe; to go on: python -m turngate train lock.toml --train.group_size=3"
    assert errors == f"stopped by {name}; {advice}\n"
    assert (tmp_path / "runs/lock/door.txt").read_text() == "closed"
    assert running(process.pid) == []
    again = start(tmp_path, step=done + 1)
    again.send_signal(number)
    again.communicate(timeout=200)
    assert again.returncode == code


def test_a_second_signal_ends_it_hard(tmp_path: Path, start: Callable[..., Forked]) -> None:
    process = start(tmp_path, slow=True)
    process.send_signal(signal.SIGINT)
    door = tmp_path / "runs/lock/door.txt"
    wait_until(lambda: door.exists() and door.read_text() == "closed", process)
    assert process.poll() is None  # a sink that does not end its closing
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=200)
    assert process.returncode == -signal.SIGINT


def test_a_command_with_nothing_to_go_on_says_that_it_was_stopped(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "play", "turngate/Lock-v1"],
        cwd=tmp_path,
        env=variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    seen = b""
    while b"press" not in seen:
        seen += process.stdout.read1(100)  # type: ignore[attr-defined]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=200)
    assert (process.returncode, errors) == (143, b"stopped by SIGTERM\n")
