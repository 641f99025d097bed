"""Tokens of replayed episodes: like fresh ones, with the ratio to who sampled them, or by a shaping of their own."""

import numpy as np
import pytest
import torch

from tests.trainer.loss.flat import tokens
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.shaping import Shaped

OWN, REPLAYED = float(Origin.OWN), float(Origin.REPLAYED)


def loss_of(origin: float, *, log_ratio: float = 0.0, advantage: float = 1.0, **settings) -> tuple[float, dict]:
    batch = tokens([-1.0], sampled=[-1.0 - log_ratio], advantage=[advantage], origin=[origin])
    value, metrics = PolicyLoss(objective=Clipped(), **settings)(batch)
    (slope,) = torch.autograd.grad(value, batch.logprob)
    return value.item(), metrics | {"slope": slope.item()}


def test_without_a_shaping_they_are_learned_like_fresh_ones():
    for log_ratio in (0.0, 0.1, 1.0):
        assert loss_of(REPLAYED, log_ratio=log_ratio) == loss_of(OWN, log_ratio=log_ratio)
    assert loss_of(REPLAYED, log_ratio=1.0)[1]["slope"] == 0  # clipped by the ratio to the recorded log-probability


def test_worked_number_of_exgrpo():
    """f(ρ) = ρ/(ρ + 0.1) is 0.909091 at ρ = 1, and nothing is clipped."""
    value, metrics = loss_of(REPLAYED, replayed=Shaped())
    assert -value == pytest.approx(0.909091, abs=1e-6)
    assert metrics["policy/replayed_share"] == 1
    rho = np.e
    value, metrics = loss_of(REPLAYED, log_ratio=1.0, replayed=Shaped())
    assert -value == pytest.approx(rho / (rho + 0.1))
    assert metrics["slope"] == pytest.approx(-0.1 * rho / (rho + 0.1) ** 2)


def test_a_shaping_leaves_fresh_tokens_as_they_are():
    assert loss_of(OWN, log_ratio=0.1, replayed=Shaped())[0] == loss_of(OWN, log_ratio=0.1)[0]
