"""``turngate train`` with ``policy.type = "vllm"``, as a user calls it.

1. Six steps keep sampler and learner in step, and learn.
2. A process that is killed with SIGKILL in step 4 takes its engine with it, and the same command goes on bit for bit.
3. Four steps with adapters that the engine adds itself keep both in step, too.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.helpers import vllm_engines, vllm_venv
from tests.helpers.command_line import turngate
from tests.helpers.forked_commands import Forks
from tests.helpers.tiny_run import tiny
from tests.run.test_killed import ROOT, episodes, metrics
from turngate.store import Store
from turngate.store.folder import RunFolder

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


def written(folder: Path, *, killed: bool, steps: int = 6, learner: str = "", policy: str = "") -> Path:
    """The config of a run that is killed in step 4 unless it was killed before."""
    folder.mkdir()
    if not killed:
        (folder / "marker").touch()
    config = folder / "run.toml"
    config.write_text(CONFIG.format(folder=folder, steps=steps, learner=learner, policy=policy))
    return config


def train_until_killed(forked: Forks, config: Path) -> int:
    """``turngate train`` in a process of its own, which has to end by SIGKILL; its process id."""
    environ = {**os.environ, "TURNGATE_VLLM_PYTHON": vllm_venv.PYTHON}
    process = forked.start("train", config, cwd=ROOT, env=environ)
    try:
        process.wait(LIMIT_S)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGKILL, process.communicate()
    return process.pid


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
def test_a_run_with_vllm_stays_in_step_and_goes_on_bit_for_bit_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: Forks
) -> None:
    monkeypatch.setenv("TURNGATE_VLLM_PYTHON", vllm_venv.PYTHON)
    one, other = tmp_path / "whole", tmp_path / "killed"
    whole, killed = (RunFolder(folder / "run") for folder in (one, other))
    config = written(other, killed=True)
    dead = train_until_killed(forked, config)
    deadline_s = time.monotonic() + 60
    while engines_of(dead):
        assert time.monotonic() < deadline_s, "the engine outlives the process that it serves"
        time.sleep(0.1)
    assert [row["step"] for row in metrics(killed)] == Store(killed.path).steps() == [1, 2, 3]

    assert turngate("train", written(one, killed=False)) == turngate("train", config) == 0
    rows = [json.loads(row) for row in whole.metrics.read_text().splitlines()]
    assert [row["policy/version"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(0 <= row["canary/max_logprob_difference"] < 1e-4 and row["learner/grad_norm"] > 0 for row in rows)
    assert metrics(killed) == metrics(whole)
    assert episodes(killed) == episodes(whole)
    weights = [(run.path / "model/model.safetensors").read_bytes() for run in (killed, whole)]
    assert weights[0] == weights[1]


@pytest.mark.timeout(2 * LIMIT_S)
def test_a_run_whose_engine_adds_the_adapters_stays_in_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGATE_VLLM_PYTHON", vllm_venv.PYTHON)
    folder, learner = tmp_path / "apart", "lora = {rank = 3, alpha = 6}"
    assert turngate("train", written(folder, killed=False, steps=4, learner=learner, policy='adapters = "apart"')) == 0
    run = RunFolder(folder / "run")
    rows = [json.loads(row) for row in run.metrics.read_text().splitlines()]
    assert [row["policy/version"] for row in rows] == [1, 2, 3, 4]
    assert all(0 <= row["canary/max_logprob_difference"] < 1e-4 and row["learner/grad_norm"] > 0 for row in rows)
    start, end = (load_file(folder / "model.safetensors") for folder in (run.warm_start, run.model))
    name = "model.layers.1.mlp.down_proj.weight"
    assert (end[name] - start[name]).abs().max() > 1e-3, "so small a change that the canary could not see it"
