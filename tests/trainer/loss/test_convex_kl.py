"""The penalty between two models is the mixture of the two divergences, in value and gradient."""

import pytest
import torch

from tests.trainer.loss.flat import tensor, tokens
from turngate.trainer.loss.convex_kl import ConvexKl
from turngate.trainer.loss.kl import KlPenalty, kl_estimate
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss


def x_of(k3: float) -> float:
    """The x < 0 whose k3 is so large."""
    low, high = -1.0, 0.0
    for _ in range(200):
        x = (low + high) / 2
        low, high = (low, x) if kl_estimate(tensor([x]), "k3").item() < k3 else (x, high)
    return x


def test_worked_number_of_remix():
    """0.7 · 0.02 + 0.3 · 0.01 = 0.017."""
    batch = tokens([-1.0], sampled=[-1.0], reference_logprob=[-1.0 - x_of(0.02)], proximal_logprob=[-1.0 - x_of(0.01)])
    value, metrics = ConvexKl(coef=0.5)(batch)
    assert metrics["policy/kl_convex_nats"] == pytest.approx(0.017, abs=1e-6)
    assert value.item() == pytest.approx(0.0085, abs=1e-6)


def test_the_gradient_is_that_of_the_two_penalties():
    columns = {"reference_logprob": [-1.3, -0.4], "proximal_logprob": [-0.9, -0.8]}
    batch = tokens([-1.0, -0.5], sampled=[-1.1, -0.6], **columns)
    value, _ = ConvexKl(coef=2.0, base=0.7)(batch)
    (slope,) = torch.autograd.grad(value, batch.logprob)
    expected = torch.zeros(2, dtype=torch.float64)
    for share, name in ((0.7, "reference_logprob"), (0.3, "proximal_logprob")):
        one = tokens([-1.0, -0.5], sampled=[-1.1, -0.6], reference_logprob=columns[name])
        part, _ = KlPenalty(coef=2.0 * share)(one)
        expected += torch.autograd.grad(part, one.logprob)[0]
    assert torch.allclose(slope, expected)


def test_the_ratio_of_the_objective_stays_that_to_the_sampler():
    """The snapshot is there for the penalty alone."""
    columns = {"reference_logprob": [-1.0], "proximal_logprob": [-1.0]}
    batch = tokens([-1.0], sampled=[-1.2], advantage=[1.0], **columns)
    _, metrics = PolicyLoss(objective=Clipped(), penalties=(ConvexKl(),))(batch)
    assert metrics["loss/policy"] == pytest.approx(-torch.tensor(0.2).exp().item(), abs=1e-6)
