"""The parts that open a learner: what is written reaches it, and a checkpoint goes on in one that was opened again."""

import numpy as np
import pytest
import torch

from tests.helpers import models
from turngate.field_help import field_help
from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.learner import Critic, LearnerPart, TorchLearnerPart
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.types import Sampling


def batch_of(seed=0):
    return pack_demonstrations(models.random_trajectories(np.random.default_rng(seed), 3, vocabulary=280))


def updated(learner, seeds=(0,)):
    for seed in seeds:
        learner.forward_backward(batch_of(seed), PolicyLoss())
        learner.optim_step()
    return learner


def test_a_table_without_a_type_opens_torch():
    part = LearnerPart.model_validate({"lr": 0.1})
    assert part == TorchLearnerPart(lr=0.1)
    assert part.settings() == {
        "lr": 0.1,
        "tolerance": None,
        "max_kl": 2.0,
        "dtype": "auto",
        "weight_decay": 0.0,
        "clip_norm": 1.0,
        "tokens_per_pass": "auto",
        "packing": "auto",
        "checkpoint_activations": False,
        "optimizer": "adamw",
        "offload": False,
        "lora": None,
    }


def test_every_setting_is_explained():
    assert [name for name in TorchLearnerPart.model_fields if not field_help(TorchLearnerPart, name)] == ["type"]


def test_what_is_written_reaches_the_learner():
    """The update is that of a learner that was made by hand with the same numbers; other numbers give another one."""
    part = TorchLearnerPart(lr=1e-2, weight_decay=0.3, clip_norm=0.5, tokens_per_pass=40)
    by_hand = models.learner(lr=1e-2, weight_decay=0.3, clip_norm=0.5, tokens_per_pass=40, temperature=0.7)
    opened = part.open(models.model(), sampling=Sampling(temperature=0.7))
    expected = updated(by_hand).weights()
    assert all(torch.equal(weight, expected[name]) for name, weight in updated(opened).weights().items())
    for change in ({"lr": 1e-3}, {"weight_decay": 0.0}, {"dtype": "bfloat16"}):
        other = part.model_copy(update=change).open(models.model(), sampling=Sampling(temperature=0.7))
        assert not all(torch.equal(weight, expected[name]) for name, weight in updated(other).weights().items())


def test_a_warm_start_has_a_learning_rate_of_its_own():
    opened = TorchLearnerPart(lr=1e-5).open(models.model(), lr=0.02)
    opened.forward_backward(batch_of(), PolicyLoss())
    assert opened.optim_step()["learner/lr"] == 0.02


@pytest.mark.parametrize("critic", [None, Critic(shared=True)])
def test_a_checkpoint_goes_on_in_a_learner_that_was_opened_again(critic, tmp_path):
    part, checkpoints = TorchLearnerPart(lr=1e-3), Checkpoints(tmp_path)
    first = updated(part.open(models.model(), critic=critic), seeds=(0, 1))
    checkpoints.save(2, first)
    again = part.open(models.model(3), critic=critic)
    checkpoints.load(2, again)
    expected = updated(first, seeds=(2,)).weights()
    assert all(torch.equal(weight, expected[name]) for name, weight in updated(again, seeds=(2,)).weights().items())
