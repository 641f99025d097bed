"""A model folder in bfloat16 trains as one in float32 does: weights are kept in float32, whatever they came in."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w
import torch
from safetensors.torch import load_file

from tests.helpers import models
from tests.helpers.command_line import turngate
from turngate.agents import tiny
from turngate.agents.policies.forward import cast
from turngate.config.run_config import parse
from turngate.run.assembly.learners import learner_of
from turngate.run.assembly.models import load_model
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.learner import TOLERANCES
from turngate.trainer.loss.policy_loss import PolicyLoss

LOCK = {"env": {"id": "turngate/Lock-v1"}, "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8}}
LR, UPDATES = 1e-5, 5


def folder(path: Path, dtype: torch.dtype) -> Path:
    """One and the same model, rounded to bfloat16, stored in ``dtype``."""
    model = models.plain_model()
    cast(model, torch.bfloat16)
    tiny.save(model.to(dtype), models.tokenizer(), path)
    return path


def trained(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], list[torch.Tensor]]:
    """Weights before and after some updates at a usual learning rate, and where each had a gradient."""
    config = parse({**LOCK, "model": str(path), "learner": {"lr": LR}})
    model, _ = load_model(str(path))
    before = {name: copy.deepcopy(weight.data) for name, weight in model.named_parameters()}
    learner, batch = learner_of(config, model), pack_demonstrations(models.play(models.local(), n_tasks=3))
    for _ in range(UPDATES):
        learner.forward_backward(batch, PolicyLoss())
        touched = [weight.grad != 0 for weight in model.parameters()]
        learner.optim_step()
    return before, dict(learner.weights()), touched


def test_nearly_every_weight_with_a_gradient_moves_although_the_folder_is_in_bfloat16(tmp_path):
    before, after, touched = trained(folder(tmp_path / "bf16", torch.bfloat16))
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    moved = [(before[name] != after[name])[at] for name, at in zip(before, touched, strict=True)]
    assert torch.cat(moved).float().mean() > 0.99
    rounded = [(before[n].bfloat16() != after[n].bfloat16())[at] for n, at in zip(before, touched, strict=True)]
    assert torch.cat(rounded).float().mean() < 0.3  # what would have moved if weights were kept in bfloat16


def test_it_learns_what_the_same_weights_in_float32_learn(tmp_path):
    _, short, _ = trained(folder(tmp_path / "bf16", torch.bfloat16))
    _, full, _ = trained(folder(tmp_path / "fp32", torch.float32))
    assert all(torch.equal(short[name], full[name]) for name in full)


@pytest.fixture
def config(tmp_path):
    """A run that warm-starts from a folder in bfloat16."""
    table = {
        **LOCK,
        "name": "lock",
        "folder": str(tmp_path / "runs"),
        "model": str(folder(tmp_path / "bf16", torch.bfloat16)),
        "warm_start": {"episodes": 8, "epochs": 1, "episodes_per_batch": 8, "lr": 5e-3},
        "train": {"steps": 1, "tasks_per_step": 3, "group_size": 4, "filters": []},
        "eval": {"tasks": 2},
    }
    path = tmp_path / "lock.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def test_a_run_on_a_bfloat16_folder_trains_and_saves_float32(config, tmp_path, capsys):
    assert turngate("train", config) == 0, capsys.readouterr().err
    saved = tmp_path / "runs" / "lock" / "model"
    assert {weight.dtype for weight in load_file(saved / "model.safetensors").values()} == {torch.float32}
    assert json.loads((saved / "config.json").read_text())["dtype"] == "float32"


def test_where_sampler_and_learner_round_differently_the_line_names_the_settings(config, capsys):
    assert turngate("train", config, "--policy.dtype=bfloat16", "--learner.tolerance=1e-4") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("MismatchError: sampler and learner differ at turn 0")
    assert error.endswith(
        "the sampler computes in bfloat16 and the learner in float32: leave out policy.dtype, or raise "
        "learner.tolerance if they differ by rounding only\n"
    )


@pytest.mark.parametrize("setting", ["--learner.dtype=bfloat16", "--policy.dtype=bfloat16"])
def test_a_run_in_bfloat16_as_on_a_gpu_goes_through_with_the_default_tolerance(setting, config, tmp_path, capsys):
    assert turngate("train", config, setting) == 0, capsys.readouterr().err
    row = json.loads((tmp_path / "runs" / "lock" / "metrics.jsonl").read_text().splitlines()[0])
    assert TOLERANCES["float32"] < row["canary/max_logprob_difference"] < TOLERANCES["bfloat16"]
    assert np.isfinite(row["learner/grad_norm"])


def test_a_tolerance_that_is_set_holds_in_bfloat16_too(config, capsys):
    assert turngate("train", config, "--learner.dtype=bfloat16", "--learner.tolerance=1e-4") == 1
    error = capsys.readouterr().err
    assert "nats (tolerance 0.0001), the mean of all others " in error
    assert error.endswith(
        "both compute in bfloat16: raise learner.tolerance if they differ by rounding only, or set "
        'learner.dtype = "float32"\n'
    )
