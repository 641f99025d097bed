"""Shapings: worked numbers of the sheet (A2, A8) through the whole loss, and what holds for all tokens."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.loss.flat import gradient, part, tokens
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.loss.corrections import Truncated
from turngate.trainer.loss.entropy import EntropyBonus
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.settings import LossSettings
from turngate.trainer.loss.shaping import RlPlus, Shaped
from turngate.types import TurnTable

ADVANTAGE = 0.866025


def of(origin, *arguments, **columns):
    made = tokens(*arguments, **columns)
    return replace(made, origin=torch.full(made.segment.shape, origin, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("gamma", "weight", "coefficient"), [(0.1, 0.8, 0.16), (1.55, 0.205128, 0.163051), ("quantile", 0.205128, 0.163051)]
)
def test_a_hinted_token_of_the_sheet(gamma, weight, coefficient):
    """Ratios .1, .4, .5, 2: γ is their 0.9 quantile, 1.55. Only the second has credit."""
    ratios = np.array([0.1, 0.4, 0.5, 2.0])
    hinted = of(Origin.HINTED, np.log(0.5 * ratios), sampled=[log(0.5)] * 4, advantage=[0, ADVANTAGE, 0, 0])
    loss = PolicyLoss(guided=Shaped(gamma=gamma))
    value, metrics = loss(hinted)
    assert value.item() == pytest.approx(-weight * ADVANTAGE, abs=1e-6)
    assert metrics["loss/hinted"] == value.item()
    np.testing.assert_allclose(gradient(loss, hinted), [0, -coefficient * ADVANTAGE, 0, 0], atol=1e-6)


def test_a_rewritten_token_of_the_sheet():
    """HeRL with γ = 1: u = .5 weighs .333333."""
    rewritten = of(Origin.HINTED, [log(0.25)], sampled=[log(0.5)], advantage=[1.0])
    assert PolicyLoss(guided=Shaped(gamma=1.0))(rewritten)[0].item() == pytest.approx(-1 / 3)


def test_swapping_contexts_without_a_ratio_would_have_given_another_loss():
    swapped = tokens([log(0.2)], sampled=[log(0.2)], advantage=[ADVANTAGE])
    assert PolicyLoss()(swapped)[0].item() == pytest.approx(-ADVANTAGE)


@pytest.mark.parametrize(("u", "weight", "coefficient"), [(0.2, 0.666667, 0.222222), (0.01, 0.090909, 0.082645)])
def test_an_expert_token_of_the_sheet(u, weight, coefficient):
    """Seven rows with two successes beside one of an expert: advantages .625 and −.375, not scaled."""
    outcome_B = np.array([1, 1, 0, 0, 0, 0, 0, 1], np.float32)
    whole = {"traj_N": np.arange(8, dtype=np.int32), "index_N": np.zeros(8, np.int32), "state_N": np.full(8, -1)}
    table = TurnTable(
        reward_N=outcome_B,
        process_N=np.full(8, np.nan, np.float32),
        open_N=np.ones(8, np.bool_),
        outcome_B=outcome_B,
        cohort_B=np.zeros(8, np.int32),
        **whole,
    )
    credit_N = dr_grpo(table)
    np.testing.assert_allclose(credit_N, [0.625, 0.625, *[-0.375] * 5, 0.625])
    expert = of(Origin.EXPERT, [log(u)], sampled=[0.0], advantage=credit_N[-1:])
    loss = PolicyLoss(experts=Shaped(gamma=0.1))
    assert loss(expert)[0].item() == pytest.approx(-weight * 0.625, abs=1e-6)
    np.testing.assert_allclose(gradient(loss, expert), [-coefficient * 0.625], atol=1e-6)
    assert PolicyLoss()(expert)[0].item() == 0  # nobody asked for experts


@pytest.mark.parametrize(("probability", "weight"), [(0.1, 0.2919), (0.001, 0.003986), (0.9, 0.3077)])
@pytest.mark.parametrize("sampled", [0.0, -3.0])
def test_an_expert_token_of_rl_plus(probability, weight, sampled):
    """π = π_old: u = 2π/(1.5π + .5), times (1 − π)^.5; the number of the sampler is not read.

    From the settings, because the power is a default: .1 gives .2/.65 · √.9 = .2919.
    """
    loss = LossSettings.model_validate({"experts": {"type": "rl_plus"}}).policy_loss(seed=0)
    at = [log(probability)]
    expert = of(Origin.EXPERT, at, sampled=[sampled], advantage=[1.0], proximal_logprob=at)
    assert loss.needs.proximal
    assert loss(expert)[0].item() == pytest.approx(-weight, rel=2e-4)
    np.testing.assert_allclose(gradient(loss, expert), [-weight], rtol=2e-4)  # the power has no gradient


def test_the_ratio_of_rl_plus_moves_with_the_policy_and_is_at_most_four():
    """After an update π_old is no longer π: .5 against .1 is 1/.65; the power alone is left out by focus = 0."""
    expert = of(Origin.EXPERT, [log(0.5), 0.0], advantage=[1.0, 0.0], proximal_logprob=[log(0.1), -30.0])
    assert PolicyLoss(experts=RlPlus(focus=0))(expert)[0].item() == pytest.approx(-1 / 0.65)
    largest = RlPlus(focus=0)(replace(expert, advantage=torch.ones_like(expert.advantage)))
    assert largest.tolist() == pytest.approx([1 / 0.65, 4.0])


def test_a_snapshot_that_only_the_mixture_asked_for_changes_no_ratio_of_own_tokens():
    own = of(Origin.OWN, [log(0.5)], sampled=[log(0.4)], advantage=[1.0], proximal_logprob=[log(0.5)])
    assert PolicyLoss(experts=RlPlus())(own)[0].item() == pytest.approx(-1.25)


def test_corrections_and_penalties_are_for_the_policys_own_tokens():
    """A hinted token differs from the sampler by its context; an expert's entropy is no business of a bonus. A replayed
    token is like one of the policy's own."""
    made = tokens([log(0.2)] * 4, sampled=[log(0.9)] * 4, advantage=[1.0] * 4, entropy=[1.0] * 4, total=4.0)
    mixed = replace(made, origin=torch.tensor(list(Origin), dtype=torch.uint8))
    _, metrics = PolicyLoss(correction=(Truncated(),), decoupled=True)(mixed)
    assert metrics["offpolicy/weight"] * 4 == pytest.approx(2 * 2 / 9)
    plain, _ = PolicyLoss()(mixed)
    bonus, _ = PolicyLoss(penalties=(EntropyBonus(coef=0.1),))(mixed)
    assert (plain - bonus).item() == pytest.approx(0.1 * 3)  # entropy 1 of the own, the hinted and the replayed token


NUMBERS = st.lists(
    st.tuples(st.floats(-3, 0), st.floats(-3, 0), st.floats(-2, 2), st.sampled_from(list(Origin))),
    min_size=1,
    max_size=8,
)


@given(NUMBERS, st.floats(0.01, 3), st.randoms(use_true_random=False))
def test_properties_of_guided_weights(rows, gamma, random):
    """1 on-policy when normalised; below 1 and growing with the ratio else; the order of rows does not matter."""
    logprob, sampled, advantage, origin = (list(column) for column in zip(*rows, strict=True))
    made = replace(
        tokens(logprob, sampled=sampled, advantage=advantage), origin=torch.tensor(origin, dtype=torch.uint8)
    )
    shaped, normalised = Shaped(gamma=gamma), Shaped(gamma=gamma, normalised=True)
    ones = replace(made, advantage=torch.ones_like(made.advantage))
    weight = shaped(ones)
    assert ((weight > 0) & (weight < 1)).all()
    order = torch.argsort(made.logprob - made.sampled_logprob)
    assert (weight[order].diff() >= -1e-12).all()
    same = replace(ones, sampled_logprob=made.logprob.detach())
    np.testing.assert_allclose(normalised(same).detach(), 1)
    loss = PolicyLoss(guided=shaped, experts=shaped)
    value, _ = loss(made)
    shuffled = list(range(len(rows)))
    random.shuffle(shuffled)
    moved = part(made, shuffled)
    np.testing.assert_allclose(loss(moved)[0].item(), value.item(), atol=1e-9)
    np.testing.assert_allclose(gradient(loss, moved), gradient(loss, made)[shuffled], atol=1e-9)
