"""KL estimators, the direction that each of them pulls in as a loss, and KL inside the reward."""

import logging
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.helpers import models
from tests.trainer.loss import flat
from tests.trainer.loss.flat import tokens
from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.errors import ConfigError, ShapeError
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.clip_delta import clip
from turngate.trainer.credit.rloo import rloo
from turngate.trainer.loss import kl
from turngate.trainer.loss.kl import COEFFICIENT, KlPenalty, adapted, kl_estimate
from turngate.trainer.signals.base import Signals
from turngate.trainer.signals.kl_reward import Divergence, with_kl_in_reward
from turngate.types import Source

REFERENCE = (0.25, 0.75)


@pytest.mark.parametrize(
    ("x", "k1", "k2", "k3"), [(0.2, 0.2, 0.02, 0.018731), (-0.2, -0.2, 0.02, 0.021403), (0.0, 0.0, 0.0, 0.0)]
)
def test_worked_numbers(x, k1, k2, k3):
    got = [kl_estimate(flat.tensor([x]), name).item() for name in ("k1", "k2", "k3")]
    assert got == pytest.approx([k1, k2, k3], abs=1e-5)


def test_k1_and_k3_are_unbiased_and_k2_is_not():
    x = flat.tensor(np.log(np.array([0.5, 0.5]) / REFERENCE))
    means = [kl_estimate(x, name).mean().item() for name in ("k1", "k2", "k3")]
    assert means == pytest.approx([0.143841, 0.161214, 0.143841], abs=1e-5)


def test_estimates_of_what_is_far_off_are_finite():
    for name in ("k1", "k2", "k3"):
        assert kl_estimate(flat.tensor([-900.0, 900.0]), name).isfinite().all()


def pull(penalty, *, sampler=(0.5, 0.5)):
    """∂penalty/∂logit of a coin with probability 1/2, in expectation over the sampler."""
    logit = torch.zeros((), dtype=torch.float64, requires_grad=True)
    logprob = torch.stack([torch.nn.functional.logsigmoid(logit), torch.nn.functional.logsigmoid(-logit)])
    batch = tokens([0.0, 0.0], sampled=np.log(sampler), weight=sampler, reference_logprob=np.log(REFERENCE))
    value, _ = penalty(replace(batch, logprob=logprob))
    (slope,) = torch.autograd.grad(value, logit)
    return value.item(), slope.item()


@pytest.mark.parametrize("sampler", [(0.5, 0.5), (0.3, 0.7), (0.9, 0.1)])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_the_exact_gradient_is_that_of_the_divergence_whoever_sampled(estimator, sampler):
    """∇KL(π ‖ π_ref) = 0.274653. The value is the estimator's mean."""
    value, slope = pull(KlPenalty(coef=1.0, estimator=estimator), sampler=sampler)
    assert slope == pytest.approx(0.274653, abs=1e-5)
    assert value == pytest.approx(0.161214 if estimator == "k2" else 0.143841, abs=1e-5)


def test_differentiating_k2_is_exact_and_k3_gives_the_other_divergence():
    """∇KL(π_ref ‖ π) = π − π_ref = 0.25."""
    assert pull(KlPenalty(coef=1.0, estimator="k2", gradient="estimator"))[1] == pytest.approx(0.274653, abs=1e-5)
    assert pull(KlPenalty(coef=1.0, estimator="k3", gradient="estimator"))[1] == pytest.approx(0.25, abs=1e-5)
    assert pull(KlPenalty(coef=0.1, estimator="k3"))[1] == pytest.approx(0.0274653, abs=1e-6)


def test_differentiating_k1_would_pull_nowhere_and_is_refused():
    x = flat.tensor(np.log(np.array([0.5, 0.5]) / REFERENCE), gradient=True)
    (slope,) = torch.autograd.grad(kl_estimate(x, "k1").mean(), x)
    assert float(slope @ flat.tensor([0.5, -0.5])) == 0  # ∇log π of a fair coin is ±1/2
    with pytest.raises(ValueError, match="k1 differentiated has gradient 0 in expectation"):
        KlPenalty(estimator="k1", gradient="estimator")


def test_the_exact_gradient_is_that_of_ratio_times_k3():
    """DeepSeek-V3.2's form: differentiate (π/μ)·k3 with the ratio."""
    rng = np.random.default_rng(0)
    logprob = torch.tensor(-rng.random(6) * 2, requires_grad=True)
    sampled, reference = flat.tensor(-rng.random(6) * 2), flat.tensor(-rng.random(6) * 2)
    x = logprob - reference
    (expected,) = torch.autograd.grad(((logprob - sampled).exp() * (torch.expm1(-x) + x)).sum(), logprob)
    batch = tokens(logprob.tolist(), sampled=sampled, reference_logprob=reference)
    np.testing.assert_allclose(flat.gradient(KlPenalty(coef=1.0), batch), expected, atol=1e-12)


def test_k3_differentiated_warns_once(caplog):
    kl._warn_of_k3.cache_clear()
    with caplog.at_level(logging.WARNING):
        KlPenalty(estimator="k3", gradient="estimator")
        KlPenalty(estimator="k3", gradient="estimator")
        KlPenalty(estimator="k3")
    assert [record.message.split(",")[0] for record in caplog.records] == [
        "k3 differentiated as a loss has the gradient of KL(reference ‖ policy)"
    ]


def test_at_the_reference_there_is_no_pull():
    batch = tokens([-1.0, -2.0], sampled=[-1.5, -1.0], reference_logprob=[-1.0, -2.0])
    assert KlPenalty()(batch)[0].item() == 0
    assert not flat.gradient(KlPenalty(), batch).any()


@given(batch=flat.batches(largest=3.0))
@settings(max_examples=15)
def test_only_weighted_tokens_are_pulled_and_parts_add_up(batch):
    batch = replace(batch, reference_logprob=batch.sampled_logprob - 0.3)
    penalty = KlPenalty(coef=0.7)
    found = flat.gradient(penalty, batch)
    assert not found[(batch.policy_weight == 0).numpy()].any()
    pieces = [flat.part(batch, [i]) for i in range(len(found))]
    np.testing.assert_allclose([flat.gradient(penalty, piece)[0] for piece in pieces], found, atol=1e-12)
    assert sum(penalty(piece)[0].item() for piece in pieces) == pytest.approx(penalty(batch)[0].item())


# --- sampled with top-p or top-k -------------------------------------------------------------------------------------


def kept_by_hand(probability, top_p, top_k):
    """Which entries are kept, one after the other from the likeliest on."""
    order = sorted(range(len(probability)), key=lambda entry: -probability[entry])[: top_k or None]
    total, before, kept = sum(probability[entry] for entry in order), 0.0, []
    for entry in order:
        if before < top_p:
            kept.append(entry)
        before += probability[entry] / total
    return sorted(kept)


@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, 3), (0.8, 0), (0.7, 4), (1.0, 0)])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_penalty_of_a_cut_distribution_by_brute_force(temperature, top_p, top_k):
    """Every token that can be sampled, weighed by how often it is: value and slope are the sums in ``loss.kl``."""
    rng = np.random.default_rng(1)
    logits, other = torch.tensor(rng.normal(size=6), requires_grad=True), torch.tensor(rng.normal(size=6))
    cut = truncated_log_softmax(logits, temperature, top_p, top_k)
    policy = torch.softmax(logits / temperature, -1)
    reference = torch.softmax(other / temperature, -1)
    kept = kept_by_hand(policy.tolist(), top_p, top_k)
    assert torch.isfinite(cut).nonzero()[:, 0].tolist() == kept
    mass, some, theirs = policy[kept].sum().detach(), policy[kept], reference[kept]
    expected = (some * (some / theirs).log() - some + theirs).sum() / mass
    (slope,) = torch.autograd.grad(expected, logits, retain_graph=True)

    batch = tokens(cut[kept].tolist(), sampled=cut[kept].tolist(), weight=cut[kept].exp().tolist())
    batch = replace(batch, logprob=cut[kept], plain_logprob=some.log(), reference_logprob=theirs.log())
    value, metrics = KlPenalty(coef=1.0)(batch)
    (found,) = torch.autograd.grad(value, logits, retain_graph=True)
    assert value.item() == pytest.approx(expected.item())
    assert metrics["policy/kl_to_reference_nats"] == pytest.approx(expected.item())
    np.testing.assert_allclose(found, slope, atol=1e-12)
    if len(kept) == len(policy):
        assert value.item() == pytest.approx((policy * (policy / reference).log()).sum().item())

    same = replace(batch, reference_logprob=some.log().detach())
    for penalty in (KlPenalty(coef=1.0), KlPenalty(coef=1.0, gradient="estimator"), KlPenalty(estimator="k2")):
        value, _ = penalty(same)
        (found,) = torch.autograd.grad(value, logits, retain_graph=True)
        assert value.item() == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(found, 0, atol=1e-12)


def test_a_token_that_the_sampler_hardly_knew_pulls_with_bounded_weight():
    batch = tokens([-1.0], sampled=[-500.0], reference_logprob=[-2.0])
    assert flat.gradient(KlPenalty(coef=1.0), batch).tolist() == [10.0]


# --- the coefficient -------------------------------------------------------------------------------------------------


def test_the_coefficient_follows_the_target():
    assert adapted(0.1, 0.2, target=0.1, n=10, horizon=100) == pytest.approx(0.1 * 1.02)
    assert adapted(0.1, 0.11, target=0.1, n=10, horizon=100) == pytest.approx(0.1 * 1.01)
    assert adapted(0.1, 0.0, target=0.1, n=10, horizon=100) == pytest.approx(0.1 * 0.98)
    assert adapted(0.1, 0.1, target=0.1, n=10, horizon=100) == 0.1


def test_a_batch_of_many_horizons_does_not_turn_the_coefficient_around():
    assert adapted(0.1, 0.0, target=0.1, n=600, horizon=100) == pytest.approx(0.08)
    assert adapted(0.1, 9.0, target=0.1, n=600, horizon=100) == pytest.approx(0.12)


def test_the_coefficient_is_remembered_from_batch_to_batch():
    penalty = KlPenalty(coef=0.5, estimator="k1", target=0.1, horizon=20)
    assert penalty.needs.survey
    batch = tokens(
        [-1.0, -1.0], sampled=[-1.0, -1.0], weight=[0.5, 0.5], reference_logprob=[-2.0, -2.0], segment=[0, 1]
    )
    first, memory = penalty.survey(batch, {"other": 1.0}, 0)
    assert first(batch)[0].item() == pytest.approx(0.5 * 1.0)  # k1 = 1 nat at both tokens
    assert memory == {"other": 1.0, COEFFICIENT: pytest.approx(0.5 * (1 + 0.2 * 2 / 20))}
    second, _ = penalty.survey(batch, memory, 0)
    assert second(batch)[0].item() == pytest.approx(memory[COEFFICIENT])
    fixed = KlPenalty()
    assert fixed.survey(batch, {}, 0) == (fixed, {})
    assert not fixed.needs.survey


@pytest.mark.parametrize(
    ("settings_of", "problem"),
    [
        ({"coef": 0.0}, "coef\n  Input should be greater than 0"),
        ({"target": 0.1}, "needs both target and horizon"),
        ({"horizon": 10}, "needs both target and horizon"),
        ({"target": -1.0, "horizon": 10}, "target\n  Input should be greater than 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings_of, problem):
    with pytest.raises(ValueError, match=problem):
        KlPenalty(**settings_of)


def test_a_reference_that_was_not_measured_is_named():
    with pytest.raises(ShapeError, match="KlPenalty needs 'reference_logprob'"):
        KlPenalty()(tokens([-1.0]))


# --- inside the reward -----------------------------------------------------------------------------------------------


def two_trajectories():
    marks = [Source.CONTEXT, Source.GUIDE, Source.POLICY]
    guided = models.turn([1], [5, 6], logprobs=[-9.0, -0.5], source=marks)
    first = models.trajectory([guided, models.turn([2], [7], logprobs=[-1.0])], name="a")
    forced = models.turn([3], [8], logprobs=[-2.0], source=[Source.CONTEXT, Source.GUIDE])
    second = models.trajectory([models.turn([1], [5], logprobs=[-0.25]), forced], name="b")
    return models.scored([first, second], [1.0, 0.0])


class Says:
    """Says this number of every token, over the whole vocabulary."""

    def __init__(self, logprob):
        self.logprob = logprob

    def logprobs(self, batch, *, whole=False):
        assert whole
        return np.full(batch.n_tokens, self.logprob, np.float32)


def test_each_turn_pays_for_its_own_policy_tokens():
    """As a run makes it: the signal measures, the view takes it from the reward before credit.

    What the sampler recorded plays no part.
    """
    group = two_trajectories()
    table = tabulate([group])
    view = partial(with_kl_in_reward, coef=0.1)
    paid, _ = Signals(sources=(Divergence(policy=Says(-0.5), base=Says(-1.5)),), view=view).measure([group], table)
    assert paid.measured["kl_N"].tolist() == [1.0, 1.0, 1.0, 0.0]
    np.testing.assert_allclose(paid.reward_N, [-0.1, 1 - 0.1, -0.1, 0.0], atol=1e-7)
    np.testing.assert_allclose(paid.measured["settled_B"] - table.measured["settled_B"], [-0.2, -0.1], atol=1e-7)
    assert paid.outcome_B.tolist() == [1.0, 0.0]
    assert table.reward_N.tolist() == [0.0, 1.0, 0.0, 0.0]
    difference = 0.8 + 0.1
    np.testing.assert_allclose(rloo(paid), [difference] * 2 + [-difference] * 2, atol=1e-6)
    np.testing.assert_allclose(clip(paid), [difference] * 2 + [-difference] * 2, atol=1e-6)


def test_what_does_not_fit_is_named():
    table = tabulate([two_trajectories()])
    with pytest.raises(ShapeError, match="KL in the reward needs column 'kl_N'"):
        with_kl_in_reward(table, coef=0.1)
    infinite = replace(table, measured={**table.measured, "kl_N": np.array([0, math.inf, 0, 0])})
    with pytest.raises(ShapeError, match="kl_N is inf at trajectory 0, turn 1"):
        with_kl_in_reward(infinite, coef=0.1)
    with pytest.raises(ConfigError, match="coef > 0, found 0"):
        with_kl_in_reward(table, coef=0.0)


def test_k1_in_the_reward_has_the_gradient_of_the_divergence():
    """E[k1·∇log π] over a fair coin, with the reward's sign turned around."""
    logprob, slope = np.log([0.5, 0.5]), np.array([0.5, -0.5])
    assert float((0.5 * (logprob - np.log(REFERENCE)) * slope).sum()) == pytest.approx(0.274653, abs=1e-5)
