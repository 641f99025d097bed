"""Runs whose environments are played on three raylets of a real Ray cluster, by ``turngate train --on ADDRESS``.

1. A run is the one of a single process: the same metrics, episodes and weights, also where the run itself was killed
   with SIGKILL and went on by the same command.
2. Processes that are killed at any moment cost their episodes, which are unusable and never zero; the run ends well.
3. What is not there is one line before any work.
"""

import importlib.util
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.envs.test_pool import is_running
from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.ray_cluster import ray_cluster
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import tiny
from turngate.cluster.ray_connection import connected
from turngate.errors import ConfigError
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
ROOT = Path(__file__).parents[2]
CONFIG = """
name = "run"

[env]
id = "tests.run.cluster_parts:test/SlowLock-v0"

[learner]
lr = 1e-3

[train]
steps = 3
tasks_per_step = 2
group_size = 6
filters = []

[eval]
tasks = 2
""" + tiny()
CLUSTER = """
[cluster]
cpus = 0.25
envs_per_process = 3
"""


@pytest.fixture(scope="module")
def client_port() -> int:
    """A port for connections from outside."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def cluster(client_port: int) -> Iterator[Any]:
    with ray_cluster(3, ray_client_server_port=client_port) as cluster:
        yield cluster


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(CONFIG + CLUSTER)
    return file


def env_processes() -> list[int]:
    """The processes of environments on the nodes."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if "ray::NodeEnvs" in command_of(pid)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def numbers(run: RunFolder) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if not k.startswith(MEASURED)} for row in read_metrics(run.metrics)]


def same(one: RunFolder, other: RunFolder) -> None:
    assert numbers(one) == numbers(other)
    for step in (1, 2, 3):
        for mine, yours in zip(Store(one.path).read(step), Store(other.path).read(step), strict=True):
            assert [score.ledger for score in mine.scores] == [score.ledger for score in yours.scores]
            for a, b in zip(mine.trajectories, yours.trajectories, strict=True):
                assert [turn.action.text for turn in a.turns] == [turn.action.text for turn in b.turns]
    files = [sorted((run.model).rglob("*.safetensors")) for run in (one, other)]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]


def test_a_run_on_three_machines_is_that_of_one_process_also_after_it_was_killed(
    cluster: Any, client_port: int, config: Path, tmp_path: Path, forked: Forks
) -> None:
    """It goes on from outside the cluster."""
    alone = tmp_path / "alone.toml"
    alone.write_text(CONFIG)
    assert turngate("train", alone, f"--folder={tmp_path / 'alone'}") == 0
    assert turngate("train", config, f"--folder={tmp_path / 'whole'}", "--on", cluster.address) == 0
    same(RunFolder(tmp_path / "alone" / "run"), RunFolder(tmp_path / "whole" / "run"))
    run = RunFolder(tmp_path / "killed" / "run")
    words = ["train", str(config), f"--folder={tmp_path / 'killed'}", "--on"]
    process = forked.start(*words, cluster.address, cwd=ROOT, env=os.environ)
    while not (run.trajectories / "step=000002").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    assert process.wait(60.0) == -signal.SIGKILL
    assert turngate(*words, f"ray://127.0.0.1:{client_port}") == 0
    same(RunFolder(tmp_path / "alone" / "run"), run)
    for _ in range(200):
        if not env_processes():
            break
        time.sleep(0.1)
    assert env_processes() == []


def test_processes_that_are_killed_cost_their_episodes_and_the_run_ends(
    cluster: Any, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where all were killed in one step the run stops, says so, and goes on by the same command."""
    rng, killed, done = np.random.default_rng(7), set[int](), threading.Event()
    run = RunFolder(tmp_path / "run")

    def kill() -> None:
        while not done.wait(float(rng.uniform(1.5, 4.0))):
            there = env_processes()
            if there and run.metrics.exists() and len(killed) < 10:  # in training
                pid = there[int(rng.integers(len(there)))]
                with suppress(ProcessLookupError):  # it may have ended meanwhile
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        command = ("train", config, f"--folder={tmp_path}", "--train.steps=12", "--on", cluster.address)
        for _ in range(5):
            if (code := turngate(*command)) == 0:
                break
            assert "none of 12 episodes of this step can be used" in capsys.readouterr().err, code
        assert code == 0
    finally:
        done.set()
        killer.join()
    assert len(killed) >= 3
    assert not any(map(is_running, killed))
    assert [row["step"] for row in read_metrics(run.metrics)] == list(range(1, 13))
    pairs = [
        (trajectory, score)
        for step in range(1, 13)
        for phase in ("train", "unused")
        if step in Store(run.path).steps(phase)
        for group in Store(run.path).read(step, phase)
        for trajectory, score in zip(group.trajectories, group.scores, strict=True)
    ]
    lost = [(trajectory, score) for trajectory, score in pairs if "process of the environment" in trajectory.error]
    assert lost
    assert not any(score.usable for _, score in lost)
    assert {str(trajectory.ending) for trajectory, _ in lost} == {"env_error"}
    assert sum(row["train/unusable_share"] * 12 for row in read_metrics(run.metrics)) == pytest.approx(len(lost))


def test_what_is_not_there_is_one_line_before_any_work(
    cluster: Any, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def refused(*words: str) -> str:
        capsys.readouterr()
        assert turngate("train", config, f"--folder={tmp_path}", *words) == 2
        line = capsys.readouterr().err.strip()
        assert "\n" not in line
        assert not (tmp_path / "run" / "warm_start").exists()
        return line

    assert re.search(r"'127.0.0.1:1': nothing answers there: .*`ray start --head`", refused("--on", "127.0.0.1:1"))
    assert "is not HOST:PORT, ray://HOST:PORT or auto" in refused("--on", "head")
    assert "4 processes of environments need 40 CPU" in refused(
        "--on", cluster.address, "--cluster.cpus=10", "--cluster.envs_per_process=2"
    )
    assert "need 3 browser, and the cluster has 0" in refused(
        "--on", cluster.address, "--cluster.resources={browser = 1.0}"
    )
    monkeypatch.setattr(ray, "__version__", "2.0.0")
    assert "every node needs Ray 2.0.0" in refused("--on", cluster.address)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "'ray' is not installed; run: pip install \"turngate[ray]\"" in refused("--on", cluster.address)


@pytest.mark.parametrize("failures", [2, 3])
def test_a_head_that_fails_to_start_a_client_is_asked_three_times(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    asked = []

    def init(**_: object) -> None:
        asked.append(1)
        if len(asked) <= failures:
            raise ConnectionAbortedError("Initialization failure from server")

    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"ray://127.0.0.1:{head.getsockname()[1]}"
        if failures == 2:
            with connected(address):
                pass
        else:
            with pytest.raises(ConfigError, match="Initialization failure"), connected(address):
                pass
    assert len(asked) == 3
