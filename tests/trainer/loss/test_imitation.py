"""Objectives that imitate: the sheet's A-LoL from payments to losses, and their gradients against enumerated ones."""

import math

import numpy as np
import pytest
import torch

from tests.trainer.credit.conftest import make_table
from tests.trainer.loss.flat import gradient, tokens
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.imitation_weights import a_lol
from turngate.trainer.loss.corrections import Truncated
from turngate.trainer.loss.imitation import ALol, NoObjective, WeighedImitation
from turngate.trainer.loss.policy_loss import PolicyLoss

R, V, RHO, NLL = [0.9, 0.4, 0.7], 0.6, [1.5, 1.0, 3.0], [2.0, 1.0, 1.0]


def rows(sampling="uniform", **columns):
    """One episode of two tokens per row of the sheet, whose log-probabilities add up to −NLL, with A-LoL's credit."""
    credit = a_lol(make_table([[one] for one in R], value_N=[V] * 3), worth="critic", sampling=sampling)
    logprob = np.repeat(np.negative(NLL) / 2, 2)
    return tokens(
        logprob,
        advantage=np.repeat(credit, 2),
        weight=[1 / 3] * 6,  # aggregate "sum": the mean over episodes of the sum over their tokens
        segment=[0, 0, 1, 1, 2, 2],
        **{name: logprob - np.repeat(np.log(RHO) / 2, 2) for name in columns},
    )


@pytest.mark.parametrize("column", [{"reference_logprob": True}, {"sampled": True}])
def test_a_lol_of_the_sheet(column):
    """Kept are rows 0 and 2; their losses are .9 and .19, because 3 is cut to 1.9."""
    against = "sampler" if "sampled" in column else "reference"
    batch = rows(**column)
    gain = ALol(against=against)(batch)
    lost = -gain.value.detach().numpy().reshape(3, 2).sum(1) / (3 / 2)  # A alone: of 3 rows 2 are kept
    np.testing.assert_allclose(lost, [0.9, 0, 0.19], atol=1e-6)
    assert gain.limited.tolist() == [False] * 4 + [True] * 2
    loss = PolicyLoss(objective=ALol(against=against))
    assert loss(batch)[0].item() == pytest.approx((0.9 + 0.19) / 2)  # the mean of what is kept
    drawn = loss(rows("advantage", **column))[0].item()
    assert drawn == pytest.approx(0.75 * 0.9 + 0.25 * 0.19)  # what the paper's sampler sees
    without = PolicyLoss(objective=WeighedImitation())(batch)[0].item()
    assert without == pytest.approx((0.3 * 2 + 0.1) / 2)  # ref_free


@pytest.mark.parametrize(("ratio", "value"), [(1.5, -0.9), (3.0, -1.14), (0.01, -0.06)])
def test_one_row_of_the_sheet(ratio, value):
    batch = tokens([-2.0], advantage=[0.3], reference_logprob=[-2 - math.log(ratio)])
    assert ALol()(batch).value.item() == pytest.approx(value)


def test_units_of_the_ratio():
    """Log-ratios .2 and .4, then −.5 in the next turn."""
    batch = tokens([-1.0] * 3, advantage=[1.0] * 3, turn=[0, 0, 1], reference_logprob=[-1.2, -1.4, -0.5])
    expected = {"sequence": [0.1] * 3, "turn": [0.6, 0.6, -0.5], "token": [0.2, 0.4, -0.5]}
    for unit, logs in expected.items():
        assert ALol(unit=unit)(batch).value.tolist() == pytest.approx([-math.exp(x) for x in logs])


def test_what_is_worse_than_expected_teaches_nothing():
    batch = tokens([-1.0, -2.0], advantage=[-1.0, 2.0], reference_logprob=[-1.0, -2.0])
    for objective in (WeighedImitation(), ALol()):
        gain = objective(batch)
        assert gain.value.tolist() == [0, -4]
        assert gain.limited.tolist() == [True, False]
    np.testing.assert_allclose(gradient(PolicyLoss(objective=WeighedImitation()), batch), [0, -2])


def test_what_is_imitated_is_measured_over_the_whole_vocabulary():
    batch = tokens([-1.0], advantage=[1.0], plain_logprob=[-3.0])
    assert WeighedImitation()(batch).value.item() == -3


def enumerated(objective, advantage, policy, reference, chances):
    """The expected gradient of −loss over all episodes of two binary turns, w.r.t. the three states' log-odds."""
    total = torch.zeros(3, dtype=torch.float64)
    for first in (0, 1):
        for second in (0, 1):
            theta = policy.clone().requires_grad_()
            took = _logprob(theta, first, second)
            base = _logprob(reference, first, second)
            batch = tokens([0.0, 0.0], advantage=[advantage[first][second]] * 2, turn=[0, 1], reference_logprob=base)
            object.__setattr__(batch, "logprob", took)
            (slope,) = torch.autograd.grad(objective(batch).value.sum(), theta)
            total += chances[first][second] * slope
    return total.numpy()


def _logprob(theta, first, second):
    """log π of both turns; the second one's state is what was done first."""
    odds = torch.stack([theta[0], theta[1 + first]])
    return torch.nn.functional.logsigmoid(odds * torch.tensor([2.0 * first - 1, 2.0 * second - 1]).double())


def test_between_the_bounds_a_lol_follows_the_expected_advantage():
    """Episodes of π_ref, all of them: the gradient is that of E_π[max(A, 0)], though π has left π_ref."""
    advantage = [[0.5, -0.2], [0.1, 0.8]]
    reference = torch.tensor([0.2, -0.1, 0.3], dtype=torch.float64)
    policy = reference + torch.tensor([0.1, 0.2, -0.1], dtype=torch.float64)
    chance = [[_logprob(reference, a, b).sum().exp().item() for b in (0, 1)] for a in (0, 1)]
    found = enumerated(ALol(), advantage, policy, reference, chance)
    theta = policy.clone().requires_grad_()
    aim = sum(_logprob(theta, a, b).sum().exp() * max(advantage[a][b], 0) for a in (0, 1) for b in (0, 1))
    (wanted,) = torch.autograd.grad(aim, theta)
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-12)
    other = enumerated(WeighedImitation(), advantage, policy, reference, chance)
    assert np.abs(other - wanted.numpy()).max() > 1e-3  # without the ratio it stays with who played


def test_imitating_the_own_successes_is_the_policy_gradient():
    """On-policy, credit 1 for a success and 0 else: the gradient of the chance to succeed."""
    won = [[0.0, 1.0], [1.0, 0.0]]
    policy = torch.tensor([0.4, -0.6, 0.2], dtype=torch.float64)
    chance = [[_logprob(policy, a, b).sum().exp().item() for b in (0, 1)] for a in (0, 1)]
    found = enumerated(WeighedImitation(), won, policy, policy, chance)
    theta = policy.clone().requires_grad_()
    aim = _logprob(theta, 0, 1).sum().exp() + _logprob(theta, 1, 0).sum().exp()
    (wanted,) = torch.autograd.grad(aim, theta)
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-12)


def test_what_each_needs_and_refuses():
    assert ALol().needs.reference
    assert not ALol(against="sampler").needs.reference
    with pytest.raises(ShapeError, match="a_lol needs 'reference_logprob'"):
        ALol()(tokens([-1.0], advantage=[1.0]))
    with pytest.raises(ConfigError, match="would count twice"):
        PolicyLoss(objective=ALol(against="sampler"), correction=(Truncated(),))
    for other in (ALol(), WeighedImitation()):
        PolicyLoss(objective=other, correction=(Truncated(),))
    assert NoObjective()(tokens([-1.0], advantage=[1.0])).value.item() == 0
