"""The objective against worked numbers and an oracle that goes token by token."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turngate.trainer.loss import MAX_LOG_RATIO, ClippedLoss, Tokens


def tokens(logprob, *, sampled=None, advantage=None, weight=None, ce=None, entropy=None) -> Tokens:
    n = len(logprob)

    def column(values, default):
        return torch.tensor([default] * n if values is None else list(values), dtype=torch.float64)

    return Tokens(
        logprob=torch.tensor(list(logprob), dtype=torch.float64, requires_grad=True),
        entropy=column(entropy, 0.0),
        sampled_logprob=column(sampled, 0.0),
        advantage=column(advantage, 0.0),
        policy_weight=column(weight, 1.0),
        ce_weight=column(ce, 0.0),
    )


def one(ratio, advantage, **settings):
    """The objective (minus the loss) of one token, and its gradient with respect to the logprob."""
    given_tokens = tokens([math.log(ratio)], advantage=[advantage])
    loss, _ = ClippedLoss(**settings)(given_tokens)
    loss.backward()
    return -loss.item(), -given_tokens.logprob.grad.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "objective", "gradient"),
    [
        (1.3, 1.0, 1.28, 0.0),  # clipped above: DAPO's worked number
        (1.3, -1.0, -1.3, -1.3),  # a bad token that became likelier is pushed back in full
        (1.2, 1.0, 1.2, 1.2),
        (0.7, 1.0, 0.7, 0.7),
        (0.7, -1.0, -0.8, 0.0),  # clipped below
        (0.9, -1.0, -0.9, -0.9),
        (4.0, -1.0, -3.0, 0.0),  # dual clip
        (2.9, -1.0, -2.9, -2.9),
        (4.0, 2.0, 2.56, 0.0),  # dual clip concerns bad tokens only
        (1.0, 0.0, 0.0, 0.0),
    ],
)
def test_worked_numbers(ratio, advantage, objective, gradient):
    assert one(ratio, advantage) == pytest.approx((objective, gradient), abs=1e-12)


def test_on_policy_the_gradient_is_that_of_reinforce():
    given_tokens = tokens(
        [-1.0, -2.0, -0.5], sampled=[-1.0, -2.0, -0.5], advantage=[2, -1, 0.5], weight=[0.5, 0.3, 0.2]
    )
    ClippedLoss()(given_tokens)[0].backward()
    np.testing.assert_allclose(given_tokens.logprob.grad, [-1.0, 0.3, -0.1], atol=1e-12)


def test_other_bounds():
    assert one(1.3, 1.0, clip_high=0.1)[0] == pytest.approx(1.1)
    assert one(0.5, -1.0, clip_low=0.4)[0] == pytest.approx(-0.6)
    assert one(9.0, -1.0, dual_clip=5.0)[0] == pytest.approx(-5.0)


def oracle(logprob, sampled, advantage, weight, ce, entropy, low, high, dual, bonus):
    total = 0.0
    for lp, old, a, w, c, h in zip(logprob, sampled, advantage, weight, ce, entropy, strict=True):
        r = math.exp(min(max(lp - old, -MAX_LOG_RATIO), MAX_LOG_RATIO))
        objective = min(r * a, min(max(r, 1 - low), 1 + high) * a)
        if a < 0:
            objective = max(objective, dual * a)
        total += -w * objective - bonus * w * h - c * lp
    return total


logprobs = st.floats(-30, 0)
unit = st.floats(0, 1)


@given(
    rows=st.lists(st.tuples(logprobs, logprobs, st.floats(-3, 3), unit, unit, st.floats(0, 5)), min_size=1, max_size=8),
    low=unit,
    high=unit,
    dual=st.floats(1.1, 5),
    bonus=st.floats(-0.1, 0.1),
)
def test_any_tokens_agree_with_the_oracle(rows, low, high, dual, bonus):
    logprob, sampled, advantage, weight, ce, entropy = zip(*rows, strict=True)
    loss = ClippedLoss(clip_low=low, clip_high=high, dual_clip=dual, entropy_bonus=bonus)
    given_tokens = tokens(logprob, sampled=sampled, advantage=advantage, weight=weight, ce=ce, entropy=entropy)
    expected = oracle(logprob, sampled, advantage, weight, ce, entropy, low, high, dual, bonus)
    value, _ = loss(given_tokens)
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    rows=st.lists(st.tuples(logprobs, logprobs, st.floats(-3, 3), unit, unit), min_size=2, max_size=8), data=st.data()
)
def test_loss_and_metrics_add_up_over_parts(rows, data):
    cut = data.draw(st.integers(1, len(rows) - 1))
    loss = ClippedLoss(entropy_bonus=0.01)

    def of(part):
        logprob, sampled, advantage, weight, ce = zip(*part, strict=True)
        value, metrics = loss(
            tokens(logprob, sampled=sampled, advantage=advantage, weight=weight, ce=ce, entropy=[1.0] * len(part))
        )
        return {**metrics, "value": value.item()}

    whole, first, second = of(rows), of(rows[:cut]), of(rows[cut:])
    for name, value in whole.items():
        assert value == pytest.approx(first[name] + second[name], rel=1e-9, abs=1e-9), name


def test_a_token_that_the_policy_has_left_stays_finite():
    for gap in (-500.0, 500.0):
        for advantage in (-1.0, 1.0):
            given_tokens = tokens([-600 + gap], sampled=[-600], advantage=[advantage])
            loss, metrics = ClippedLoss()(given_tokens)
            loss.backward()
            assert math.isfinite(loss.item())
            assert torch.isfinite(given_tokens.logprob.grad).all()
            assert all(math.isfinite(value) for value in metrics.values())


def test_metrics_of_a_worked_case():
    given_tokens = tokens(
        [math.log(1.3), math.log(0.9)],
        advantage=[1.0, 1.0],
        weight=[0.25, 0.75],
        ce=[0.5, 0.0],
        entropy=[2.0, 1.0],
    )
    _, metrics = ClippedLoss()(given_tokens)
    assert metrics == pytest.approx(
        {
            "loss/policy": -(0.25 * 1.28 + 0.75 * 0.9),
            "loss/imitation": -0.5 * math.log(1.3),
            "policy/entropy_nats": 1.25,
            "policy/clipped_share": 0.25,
            "policy/kl_to_sampler_nats": 0.25 * (0.3 - math.log(1.3)) + 0.75 * (-0.1 - math.log(0.9)),
        }
    )


def test_the_distance_from_the_sampler_is_the_divergence_when_every_token_counts_as_often_as_it_is_sampled():
    sampler, policy = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    _, metrics = ClippedLoss()(tokens(np.log(policy), sampled=np.log(sampler), weight=sampler))
    assert metrics["policy/kl_to_sampler_nats"] == pytest.approx((sampler * np.log(sampler / policy)).sum())
