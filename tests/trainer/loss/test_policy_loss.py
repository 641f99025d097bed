"""The whole loss against worked numbers and an oracle that goes token by token."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.loss import flat
from tests.trainer.loss.flat import tokens
from turngate.errors import ConfigError
from turngate.trainer.loss.base import Objective
from turngate.trainer.loss.corrections import Masked, NegativeDriftMask, Truncated, VetoRejection
from turngate.trainer.loss.covariance import KlCov
from turngate.trainer.loss.entropy import EntropyBonus, Siren
from turngate.trainer.loss.kl import KlPenalty
from turngate.trainer.loss.objectives import Cispo, Clipped, Gmpo, Gspo, Reinforce, Sapo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Needs, gather, mean_over, needs_of, owners, sum_over


def one(ratio, advantage, **settings):
    """The objective (minus the loss) of one token, and its gradient with respect to the logprob."""
    given_tokens = tokens([math.log(ratio)], advantage=[advantage])
    loss, _ = PolicyLoss(objective=Clipped(**settings))(given_tokens)
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
    PolicyLoss()(given_tokens)[0].backward()
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
    bonus=st.floats(-0.1, 0.1).filter(bool),
)
def test_any_tokens_agree_with_the_oracle(rows, low, high, dual, bonus):
    logprob, sampled, advantage, weight, ce, entropy = zip(*rows, strict=True)
    objective = Clipped(clip_low=low, clip_high=high, dual_clip=dual)
    loss = PolicyLoss(objective=objective, penalties=(EntropyBonus(coef=bonus),))
    given_tokens = tokens(logprob, sampled=sampled, advantage=advantage, weight=weight, ce=ce, entropy=entropy)
    expected = oracle(logprob, sampled, advantage, weight, ce, entropy, low, high, dual, bonus)
    value, _ = loss(given_tokens)
    assert value.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(
    rows=st.lists(st.tuples(logprobs, logprobs, st.floats(-3, 3), unit, unit), min_size=2, max_size=8), data=st.data()
)
def test_loss_and_metrics_add_up_over_parts(rows, data):
    cut = data.draw(st.integers(1, len(rows) - 1))
    loss = PolicyLoss(penalties=(EntropyBonus(coef=0.01),))

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
            loss, metrics = PolicyLoss()(given_tokens)
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
    _, metrics = PolicyLoss()(given_tokens)
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
    _, metrics = PolicyLoss()(tokens(np.log(policy), sampled=np.log(sampler), weight=sampler))
    assert metrics["policy/kl_to_sampler_nats"] == pytest.approx((sampler * np.log(sampler / policy)).sum())


# --- parts put together ----------------------------------------------------------------------------------------------

TOKEN = Truncated()


def test_decoupled_ppo():
    """−w·min(r·A, clip(r)·A) with w = π_old/μ = 0.8 and r = π/π_old = 1.5, clip 0.2."""
    loss = PolicyLoss(objective=Clipped(clip_low=0.2, clip_high=0.2), correction=(TOKEN,), decoupled=True)
    for advantage, objective in ((1.0, 0.96), (-1.0, -1.2)):
        given_tokens = tokens(
            [math.log(0.8 * 1.5)], sampled=[0.0], proximal_logprob=[math.log(0.8)], advantage=[advantage]
        )
        assert -loss(given_tokens)[0].item() == pytest.approx(objective, abs=1e-5)


def test_the_weight_of_decoupled_ppo_is_capped_and_without_gap_it_is_one():
    loss = PolicyLoss(objective=Clipped(), correction=(Truncated(cap=5.0),), decoupled=True)
    for rho, weight in ((9.0, 5.0), (1.0, 1.0)):
        given_tokens = tokens([0.0], sampled=[-math.log(rho)], proximal_logprob=[0.0], advantage=[1.0])
        value, metrics = loss(given_tokens)
        assert -value.item() == pytest.approx(weight)
        assert metrics["offpolicy/weight"] == pytest.approx(weight)


def test_a_correction_of_reinforce_is_importance_weighted_policy_gradient():
    loss = PolicyLoss(objective=Reinforce(), correction=(TOKEN,))
    given_tokens = tokens([-1.0, -1.0], sampled=[-1.0 - math.log(1.5), -5.0], advantage=[2.0, 2.0], weight=[0.5, 0.5])
    np.testing.assert_allclose(flat.gradient(loss, given_tokens), [-0.5 * 1.5 * 2, -0.5 * 2 * 2])


def test_rejected_tokens_keep_their_place_in_the_normalisation():
    given_tokens = tokens(
        [0.0, 0.0], sampled=[0.0, 20.0], advantage=[1.0, 1.0], weight=[0.5, 0.5], segment=[0, 1], turn=[0, 0]
    )
    loss = PolicyLoss(objective=Reinforce(), correction=(VetoRejection(),))
    np.testing.assert_allclose(flat.gradient(loss, given_tokens), [-0.5, 0.0])
    _, metrics = loss(given_tokens)
    assert metrics["offpolicy/dropped_share"] == 0.5


def test_everything_rejected_is_a_loss_of_zero():
    given_tokens = tokens([0.0, -1.0], sampled=[19.0, 19.0], advantage=[1.0, -1.0])
    loss = PolicyLoss(objective=Reinforce(), correction=(VetoRejection(),), normalize=True)
    value, _ = loss(given_tokens)
    assert value.item() == 0
    assert not flat.gradient(loss, given_tokens).any()


def test_penalties_and_needs_add_up():
    penalties = (EntropyBonus(coef=0.1), KlPenalty(coef=0.5), Siren())
    loss = PolicyLoss(objective=KlCov(), penalties=penalties, decoupled=True)
    assert needs_of(loss) == Needs(proximal=True, reference=True, survey=True, nucleus=0.8)
    assert needs_of(lambda tokens: (tokens.logprob.sum(), {})) == Needs()
    assert needs_of(PolicyLoss()) == Needs()
    given_tokens = tokens(
        [-1.0], entropy=[2.0], reference_logprob=[-1.5], proximal_logprob=[-1.0], nucleus_entropy=[0.0], sampled=[-1.0]
    )
    value, metrics = loss(given_tokens)
    k3 = math.exp(-0.5) - 1 + 0.5
    assert value.item() == pytest.approx(-0.1 * 2.0 + 0.5 * k3)
    assert metrics["policy/kl_to_reference_nats"] == pytest.approx(k3)


def test_cross_entropy_means_the_whole_distribution():
    given_tokens = tokens([-1.0], ce=[0.5], weight=[0.0], plain_logprob=[-1.5])
    value, metrics = PolicyLoss()(given_tokens)
    assert value.item() == metrics["loss/imitation"] == 0.75
    value.backward()
    assert given_tokens.plain_logprob.grad.item() == -0.5
    assert not given_tokens.logprob.grad


def test_metrics_are_averages_under_every_normalisation():
    rows = {"sampled": [0.0, 0.0], "advantage": [1.0, 1.0], "entropy": [1.0, 3.0]}
    logprob = [math.log(1.3), 0.0]
    _, mean = PolicyLoss()(tokens(logprob, weight=[0.5, 0.5], **rows))
    _, summed = PolicyLoss()(tokens(logprob, weight=[4.0, 4.0], total=8.0, **rows))
    for name in ("policy/entropy_nats", "policy/clipped_share", "policy/kl_to_sampler_nats"):
        assert mean[name] == pytest.approx(summed[name])
    assert mean["policy/entropy_nats"] == 2.0


@pytest.mark.parametrize("objective", [Clipped(), Gspo(), Cispo(), Gmpo(), Sapo(), KlCov()], ids=repr)
def test_weighting_a_ratio_by_the_same_ratio_is_refused(objective):
    with pytest.raises(ConfigError, match=f"'tis' weighs by the ratio .* objective '{objective.type}' already carries"):
        PolicyLoss(objective=objective, correction=(TOKEN, VetoRejection()))
    PolicyLoss(objective=objective, correction=(TOKEN,), decoupled=True)
    PolicyLoss(objective=objective, correction=(VetoRejection(), NegativeDriftMask()))


def test_settings_without_effect_are_refused():
    with pytest.raises(ConfigError, match="decoupled without a correction has no effect: objective 'reinforce' uses"):
        PolicyLoss(objective=Reinforce(), decoupled=True)
    with pytest.raises(ConfigError, match="normalize has no effect without a correction"):
        PolicyLoss(normalize=True)
    with pytest.raises(ConfigError, match="penalty 'kl' is listed 2 times; list it once"):
        PolicyLoss(penalties=(KlPenalty(), EntropyBonus(coef=0.1), KlPenalty(coef=0.1)))
    with pytest.raises(ConfigError, match=r"need nucleus 0.5 and 0.8; set them equal"):
        _ = PolicyLoss(objective=Picky(type="picky"), penalties=(Siren(),)).needs


class Picky(Objective):
    @property
    def needs(self):
        return Needs(nucleus=0.5)


OBJECTIVES = [Clipped(), Gspo(), Gspo(unit="turn"), Cispo(), Gmpo(), Gmpo(unit="turn"), Sapo(), Reinforce(), KlCov()]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@given(batch=flat.batches())
@settings(max_examples=20)
def test_on_policy_every_objective_has_the_gradient_of_reinforce(objective, batch):
    batch = replace(batch, sampled_logprob=batch.logprob.detach())
    expected = -(batch.policy_weight * batch.advantage).numpy()
    np.testing.assert_allclose(flat.gradient(PolicyLoss(objective=objective), batch), expected, atol=1e-12)


@pytest.mark.parametrize("objective", [*OBJECTIVES, Reinforce()], ids=repr)
@given(batch=flat.batches(proximal=True), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_cutting_and_ordering_whole_trajectories_changes_nothing(objective, batch, seed):
    """After a survey of the whole batch, passes over whole trajectories add up, in any order of tokens."""
    rules = (Truncated(unit="turn", reduce="mean"), Masked(unit="sequence", low=0.1, high=9.0))
    loss = PolicyLoss(
        objective=objective,
        correction=rules,
        normalize=True,
        penalties=(EntropyBonus(coef=0.01),),
        decoupled=True,
    )
    fixed, _ = loss.survey(batch, {})
    whole, metrics = fixed(batch)
    expected = flat.gradient(fixed, batch)
    rng = np.random.default_rng(seed)
    total, found, summed = 0.0, np.zeros(len(batch.logprob)), dict.fromkeys(metrics, 0.0)
    for owner in (batch.segment == 0, batch.segment != 0):
        at = rng.permutation(np.flatnonzero(owner.numpy()))
        if len(at):
            piece = flat.part(batch, at)
            value, parts = fixed(piece)
            total += value.item()
            found[at] = flat.gradient(fixed, piece)
            summed = {name: summed[name] + parts[name] for name in summed}
    assert total == pytest.approx(whole.item(), abs=1e-9)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert summed == pytest.approx(metrics, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("gap", [-600.0, 600.0])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_what_is_far_off_stays_finite_under_every_objective(objective, gap, advantage):
    rules = (Truncated(), NegativeDriftMask(), VetoRejection())
    loss = PolicyLoss(objective=objective, correction=rules, decoupled=True)
    far = tokens(
        [-700.0 + gap, -1.0], sampled=[-700.0, -1.0], advantage=[advantage] * 2, proximal_logprob=[-700 - gap, -1]
    )
    value, metrics = loss(far)
    assert math.isfinite(value.item())
    assert np.isfinite(flat.gradient(loss, far)).all()
    assert all(math.isfinite(number) for number in metrics.values())


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_no_tokens_are_a_loss_of_zero(objective):
    nothing = flat.part(tokens([-1.0]), np.zeros(0, int))
    assert PolicyLoss(objective=objective)(nothing)[0].item() == 0


# --- sums over turns and trajectories --------------------------------------------------------------------------------


def test_owners_are_turns_inside_trajectories():
    batch = tokens([0.0] * 6, segment=[4, 4, 4, 7, 7, 7], turn=[0, 1, 1, 1, 1, 0])
    assert owners(batch, "sequence").tolist() == [0, 0, 0, 1, 1, 1]
    turns = owners(batch, "turn").tolist()
    assert turns[1] == turns[2]
    assert turns[3] == turns[4]
    assert len(set(turns)) == 4
    assert owners(batch, "token").tolist() == list(range(6))


def test_sums_and_means_count_what_is_counted():
    owner, counted = torch.tensor([0, 0, 1, 1, 2]), torch.tensor([True, False, True, True, False])
    values = flat.tensor([1.0, np.inf, 2.0, 4.0, np.nan])
    assert sum_over(values, owner, counted).tolist() == [1, 1, 6, 6, 0]
    assert mean_over(values, owner, counted).tolist() == [1, 1, 3, 3, 0]


def test_passes_are_put_back_into_the_order_of_the_batch():
    batch = tokens([-1.0, -2.0, -3.0, -4.0], entropy=[1, 2, 3, 4], reference_logprob=[5, 6, 7, 8], total=3.0)
    again = gather([flat.part(batch, [3, 1]), flat.part(batch, [0, 2])])
    assert again.logprob.tolist() == [-1, -2, -3, -4]
    assert again.reference_logprob.tolist() == [5, 6, 7, 8]
    assert again.total == 3.0
    assert again.proximal_logprob is None
    assert not again.logprob.requires_grad
