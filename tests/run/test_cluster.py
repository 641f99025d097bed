"""Runs on three raylets of a real Ray cluster, by ``turngate train --on ADDRESS``.

1. A run whose environments are played there is the one of a single process: the same metrics, episodes and weights,
   though the run itself was killed with SIGKILL and went on by the same command.
2. So is one whose learner has two processes there, to rounding, though one of them was killed too.
3. Environments, processes of the learner and a raylet that are killed at any moment cost episodes, which are unusable
   and never zero, and no step; the run ends well.
4. What is not there is one line before any work.
"""

import importlib.util
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import models
from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.ray_cluster import NODE, ray_cluster
from tests.helpers.rounding import GRADIENT
from tests.helpers.run_metrics import MEASURED
from tests.helpers.tiny_run import three_steps
from tests.run.rank_parts import failing_loss
from tests.trainer.torch.test_packing import batch_of
from turngate.cluster.ray_connection import connected
from turngate.envs.pool.cluster_parts import RayCluster
from turngate.errors import ConfigError, ProcessLost, RunError
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.metrics import read_metrics
from turngate.trainer.learner import FsdpLearnerPart
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.torch import ray_ranks

pytestmark = [
    pytest.mark.component,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
ROOT = Path(__file__).parents[2]
CONFIG = three_steps("tests.run.cluster_parts:test/SlowLock-v0", heldout=2)
CLUSTER = """
[cluster]
cpus = 0.25
envs_per_process = 3
"""
FSDP = ('--learner.type="fsdp"', "--cluster.learner_processes=2")


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


def processes_of(kind: str) -> list[int]:
    """The processes on the nodes whose name begins so."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if f"ray::{kind}" in command_of(pid)]


def kill_one(kind: str, rng: np.random.Generator) -> None:
    """SIGKILL one of them, if there is any."""
    if there := processes_of(kind):
        with suppress(ProcessLookupError):  # it may have ended meanwhile
            os.kill(there[int(rng.integers(len(there)))], signal.SIGKILL)


def ends_soon(kind: str) -> bool:
    """Whether no such process is left after a while."""
    for _ in range(200):
        if not processes_of(kind):
            return True
        time.sleep(0.1)
    return False


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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run in one process."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "run.toml").write_text(CONFIG)
    assert turngate("train", folder / "run.toml", f"--folder={folder}") == 0
    return RunFolder(folder / "run")


def train_until(forked: Forks, words: list[str], step: Path, after: Callable[[], None] = lambda: None) -> str:
    """``turngate`` in a process of its own, which is killed when the folder ``step`` is there; ``after``: called after
    step 1. What it printed."""
    process = forked.start(*words, cwd=ROOT, env=os.environ)

    def wait_for(folder: Path) -> None:
        while not folder.exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    wait_for(RunFolder(step.parents[1]).checkpoints / "step=000001")
    after()
    wait_for(step)
    process.kill()
    assert process.wait(60.0) == -signal.SIGKILL
    return process.communicate()[0]


def test_a_run_on_three_machines_is_that_of_one_process_though_it_was_killed(
    cluster: Any, client_port: int, alone: RunFolder, config: Path, tmp_path: Path, forked: Forks
) -> None:
    """It goes on from outside the cluster."""
    words = ["train", str(config), f"--folder={tmp_path}", "--on"]
    train_until(forked, [*words, cluster.address], RunFolder(tmp_path / "run").trajectories / "step=000002")
    assert turngate(*words, f"ray://127.0.0.1:{client_port}") == 0
    same(alone, RunFolder(tmp_path / "run"))
    assert ends_soon("NodeEnvs")


def test_a_learner_in_the_cluster_learns_the_same_though_it_and_the_run_were_killed(
    cluster: Any, alone: RunFolder, config: Path, tmp_path: Path, forked: Forks
) -> None:
    """The run outlives the death of a process of the learner."""
    run = RunFolder(tmp_path / "run")
    words = ["train", str(config), f"--folder={tmp_path}", *FSDP, "--on", cluster.address]
    said = train_until(
        forked, words, run.checkpoints / "step=000002", lambda: kill_one("RankProcess", np.random.default_rng(0))
    )
    assert re.search(r"rank \d of 2 was lost: .*; the learner is started again, after step 1", said)
    assert ends_soon("RankProcess")
    assert turngate(*words) == 0
    assert [row["step"] for row in numbers(run)] == [1, 2, 3]
    for row, other in zip(numbers(run), numbers(alone), strict=True):
        changed = [one.pop("offpolicy/changed_share", 0) for one in (row, other)]  # on-policy it counts rounding
        assert max(changed) < 0.01
        assert row == pytest.approx(other, rel=row["step"] * GRADIENT, abs=row["step"] * GRADIENT)  # updates add up


@pytest.mark.parametrize("how", ["fails", "stands still"])
def test_a_process_of_a_learner_that_fails_or_stands_still_ends_the_others(
    how: str, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_ranks, "PING_S", 0.5)
    part = RayCluster(address=cluster.address, cpus=0.25, learner_processes=2)
    told = "rank 1 of 2: it has had enough" if how == "fails" else "rank . of 2 (lost the others|gave no sign of life)"
    with FsdpLearnerPart(timeout_s=15.0).started(cluster=part):
        ours, theirs = FsdpLearnerPart(lr=1e-3).open(models.model()), models.learner(models.model())
        batch = batch_of()[1]
        np.testing.assert_allclose(ours.logprobs(batch), theirs.logprobs(batch), atol=1e-5)
        if how == "stands still":
            os.kill(max(processes_of("RankProcess")), signal.SIGSTOP)
        with pytest.raises(RunError if how == "fails" else ProcessLost, match=told):
            ours.forward_backward(batch, failing_loss if how == "fails" else PolicyLoss())
        with pytest.raises(RunError, match="start the run again"):
            ours.optim_step()
    assert ends_soon("RankProcess")


def test_what_is_killed_costs_episodes_and_no_step(
    cluster: Any, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where too much was killed in one step the run stops, says so, and goes on by the same command."""
    rng, killed, done = np.random.default_rng(7), list[str](), threading.Event()
    run = RunFolder(tmp_path / "run")

    def kill() -> None:
        plan = [*rng.permutation(["NodeEnvs", "NodeEnvs", "RankProcess", "raylet"]), "NodeEnvs"]
        while plan and not done.wait(float(rng.uniform(0.2, 1.5))):
            steps = run.metrics.read_text().count("\n") if run.metrics.exists() else 0
            if steps <= len(killed) or not (processes_of("NodeEnvs") and processes_of("RankProcess")):
                continue  # one after each step, so that a fast run does not end before
            kind = plan.pop()
            if kind == "raylet":
                cluster.remove_node(min(cluster.worker_nodes, key=str), allow_graceful=False)
            else:
                kill_one(kind, rng)
            killed.append(kind)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        command = ("train", config, f"--folder={tmp_path}", "--train.steps=8", *FSDP, "--on", cluster.address)
        for _ in range(5):
            if (code := turngate(*command)) == 0:
                break
            assert re.search("none of 12 episodes of this step can be used|was lost", capsys.readouterr().err), code
        assert code == 0
    finally:
        done.set()
        killer.join()
        cluster.add_node(**NODE)  # instead of the one that was killed
    assert {"NodeEnvs", "RankProcess", "raylet"} <= set(killed)
    assert [row["step"] for row in read_metrics(run.metrics)] == list(range(1, 9))
    pairs = [
        (trajectory, score)
        for step in range(1, 9)
        for phase in ("train", "unused")
        if step in Store(run.path).steps(phase)
        for group in Store(run.path).read(step, phase)
        for trajectory, score in zip(group.trajectories, group.scores, strict=True)
    ]
    lost = [(trajectory, score) for trajectory, score in pairs if "process of the environment" in trajectory.error]
    assert len(pairs) == 8 * 12
    assert not any(score.usable for _, score in lost)
    assert {str(trajectory.ending) for trajectory, _ in lost} <= {"env_error"}
    assert sum(row["train/unusable_share"] * 12 for row in read_metrics(run.metrics)) == pytest.approx(len(lost))
    assert ends_soon("NodeEnvs")
    assert ends_soon("RankProcess")


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
    assert "3 processes of the learner need 30 CPU, and the cluster has 3" in refused(
        "--on", cluster.address, FSDP[0], "--cluster.cpus=10", "--cluster.learner_processes=3"
    )
    assert "cluster.learner_processes = 2 has no effect" in refused("--on", cluster.address, FSDP[1])
    for name in ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    assert "torchrun started this process, and [cluster]" in refused("--on", cluster.address, *FSDP)
    monkeypatch.undo()
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
