"""``turngate train`` with ``policy.type = "vllm"``, as a user calls it.

1. Six steps keep sampler and learner in step, and learn.
2. A process that is killed with SIGKILL in step 4 takes its engine with it, and the same command goes on bit for bit.
3. Four steps with adapters that the engine adds itself keep both in step, too.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.helpers import vllm_engines, vllm_venv
from tests.helpers.tiny_run import tiny
from tests.run.test_killed import ROOT, episodes, metrics
from turngate.runs import RunFolder
from turngate.store import Store

LIMIT_S = 900
CONFIG = """
name = "run"
folder = "{folder}"

[env]
id = "tests.run.late_killing:test/LateKillingLock-v0"
[env.kwargs]
run = "{folder}/run"
steps = 3

[learner]
lr = 1e-3
{learner}

[train]
steps = {steps}
tasks_per_step = 2
group_size = 4
filters = []

[eval]
tasks = 1
""" + tiny(layers=2, width=64, policy='type = "vllm"\n{policy}')

pytestmark = [vllm_engines.needed, pytest.mark.component]


def begin(
    folder: Path, *, killed: bool, steps: int = 6, learner: str = "", policy: str = ""
) -> subprocess.Popen[bytes]:
    """``turngate train`` in a process of its own, which is killed in step 4 unless it was killed before."""
    folder.mkdir(exist_ok=True)
    if not killed:
        (folder / "marker").touch()
    config = folder / "run.toml"
    config.write_text(CONFIG.format(folder=folder, steps=steps, learner=learner, policy=policy))
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "TURNGATE_VLLM_PYTHON": vllm_venv.PYTHON,
    }
    with (folder / "output.txt").open("a") as file:
        command = [sys.executable, "-m", "turngate", "train", str(config)]
        return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=file, stderr=file)


def status(process: subprocess.Popen[bytes], folder: Path) -> int:
    try:
        process.wait(LIMIT_S)
    finally:
        process.kill()
    assert process.returncode in (0, -signal.SIGKILL), (folder / "output.txt").read_text()
    return process.returncode


def engines_of(parent: int) -> list[int]:
    """Process ids of the engines that were started by the process ``parent``."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"turngate.agents.engines.vllm_server:serve" in words and str(parent).encode() in words:
            found.append(int(entry.name))
    return found


@pytest.mark.timeout(4 * LIMIT_S)
def test_a_run_with_vllm_stays_in_step_and_goes_on_bit_for_bit_after_a_kill(tmp_path: Path) -> None:
    one, other = tmp_path / "whole", tmp_path / "killed"
    whole, killed = (RunFolder(folder / "run") for folder in (one, other))
    dying = begin(other, killed=True)
    assert status(dying, other) == -signal.SIGKILL
    deadline_s = time.monotonic() + 60
    while engines_of(dying.pid):
        assert time.monotonic() < deadline_s, "the engine outlives the process that it serves"
        time.sleep(0.1)
    assert [row["step"] for row in metrics(killed)] == Store(killed.path).steps() == [1, 2, 3]

    assert status(begin(one, killed=False), one) == status(begin(other, killed=True), other) == 0
    rows = [json.loads(row) for row in whole.metrics.read_text().splitlines()]
    assert [row["policy/version"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(0 < row["canary/max_logprob_difference"] < 1e-4 and row["learner/grad_norm"] > 0 for row in rows)
    assert metrics(killed) == metrics(whole)
    assert episodes(killed) == episodes(whole)
    weights = [(run.path / "model/model.safetensors").read_bytes() for run in (killed, whole)]
    assert weights[0] == weights[1]


@pytest.mark.timeout(2 * LIMIT_S)
def test_a_run_whose_engine_adds_the_adapters_stays_in_step(tmp_path: Path) -> None:
    learner = "lora = {rank = 3, alpha = 6}"
    assert status(begin(tmp_path, killed=False, steps=4, learner=learner, policy='adapters = "apart"'), tmp_path) == 0
    run = RunFolder(tmp_path / "run")
    rows = [json.loads(row) for row in run.metrics.read_text().splitlines()]
    assert [row["policy/version"] for row in rows] == [1, 2, 3, 4]
    assert all(0 < row["canary/max_logprob_difference"] < 1e-4 and row["learner/grad_norm"] > 0 for row in rows)
    start, end = (load_file(folder / "model.safetensors") for folder in (run.warm_start, run.model))
    name = "model.layers.1.mlp.down_proj.weight"
    assert (end[name] - start[name]).abs().max() > 1e-3, "so small a change that the canary could not see it"
