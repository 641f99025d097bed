"""A learning rate that is far too high ends the run with a line that names it, and a usual one is not taken for it."""

import json
import math
import re

import numpy as np
import pytest
import tomli_w
import torch

from tests.helpers import models
from tests.helpers.command_line import turngate
from turngate.errors import RunError
from turngate.trainer.batch.pack import pack
from turngate.trainer.checks.canary import KL_SEGMENTS, UpdateKl


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rates")
    table = {
        "name": "lock",
        "folder": str(folder / "runs"),
        "env": {"id": "turngate/Lock-v1"},
        "model": {"layers": 1, "width": 32, "heads": 2, "vocabulary": 300},
        "warm_start": {"episodes": 96, "epochs": 8, "episodes_per_batch": 8, "lr": 5e-3},
        "policy": {"turn_tokens": 8, "context": 256, "concurrency": 8},
        "train": {"steps": 2, "tasks_per_step": 4, "group_size": 6, "filters": []},
        "eval": {"tasks": 2},
    }
    path = folder / "lock.toml"
    path.write_text(tomli_w.dumps(table))
    return path


def rows(config, name):
    file = config.parent / "runs" / name / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("lr", ["0.1", "1e30"])
def test_an_absurd_learning_rate_stops_the_run_and_is_named(lr, config, capsys):
    assert turngate("train", config, f"--name=rate{lr}", f"--learner.lr={lr}") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.search(r"^RunError: .* by \S+ nats per token \(learner\.max_kl is 2\)", error)
    assert f"learner.lr {float(lr):g} is too high" in error
    assert rows(config, f"rate{lr}") == []  # the ruined step is no step of the run


def test_a_high_one_stays_far_from_the_limit_which_can_be_changed(config, capsys):
    assert turngate("train", config, "--name=sane", "--learner.lr=3e-3") == 0
    update_kl = [row["learner/update_kl_nats"] for row in rows(config, "sane")]
    assert len(update_kl) == 2
    assert all(0 < kl < 0.5 for kl in update_kl)
    assert turngate("train", config, "--name=strict", "--learner.lr=3e-3", "--learner.max_kl=1e-6") == 1
    assert "(learner.max_kl is 1e-06)" in capsys.readouterr().err


def batch_of(n):
    trajectories = models.random_trajectories(np.random.default_rng(0), n, vocabulary=280)
    return pack([models.scored(trajectories)], np.zeros(sum(len(t.turns) for t in trajectories), np.float32))


def test_weights_that_are_no_numbers_are_an_error_too():
    taught = models.learner()
    update_kl = UpdateKl(batch_of(3), taught)
    with torch.no_grad():
        next(taught.model.parameters()).fill_(math.nan)
    with pytest.raises(RunError, match=r"by nan nats per token .* learner\.lr 0\.5 is too high \(gradient norm 7\)"):
        update_kl.check({"learner/lr": 0.5, "learner/grad_norm": 7.0}, limit=2.0)


def test_it_is_the_divergence_on_whole_episodes_spread_over_the_batch(monkeypatch):
    batch, taught, other = batch_of(3 * KL_SEGMENTS), models.learner(), models.learner(models.model(1))
    asked, before = [], taught.logprobs(batch)
    monkeypatch.setattr(taught, "logprobs", lambda some, whole: asked.append(some) or other.logprobs(some, whole=whole))
    update_kl = UpdateKl(batch, taught)
    monkeypatch.undo()
    (some,) = asked
    assert some.n_segments == KL_SEGMENTS
    chosen = np.isin(batch.segment_L, np.linspace(0, batch.n_segments - 1, KL_SEGMENTS).round())
    np.testing.assert_array_equal(some.ids_L, batch.ids_L[chosen])
    spoken = chosen & (batch.policy_weight_L != 0)
    wanted = np.mean(other.logprobs(batch)[spoken].astype(float) - before[spoken])
    assert update_kl.check({}, limit=9.0)["learner/update_kl_nats"] == pytest.approx(wanted, rel=1e-4)
