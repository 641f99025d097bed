"""Entropy of the nucleus, peaks, SIREN's anchor, and the two covariance methods."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.loss import flat
from tests.trainer.loss.flat import tokens
from turngate.errors import ShapeError
from turngate.trainer.loss.covariance import ClipCov, KlCov, covariance
from turngate.trainer.loss.entropy import ANCHOR, EntropyBonus, Siren, above_quantile, entropy_of, nucleus_entropy
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss


def logs(*probabilities):
    with np.errstate(divide="ignore"):
        return flat.tensor(np.log(probabilities))


# --- entropies -------------------------------------------------------------------------------------------------------


def test_entropy_of_the_nucleus():
    """(.5, .3, .15, .05) up to .8 is (.625, .375); the token that would cross the bound stays out."""
    row = logs(0.3, 0.05, 0.5, 0.15)
    assert nucleus_entropy(row, 0.8).item() == pytest.approx(0.661563, abs=1e-5)
    assert nucleus_entropy(row, 0.79).item() == 0
    assert nucleus_entropy(row, 0.4).item() == 0  # the first alone
    assert nucleus_entropy(row, 1.0).item() == pytest.approx(entropy_of(row).item())
    assert nucleus_entropy(logs(0.95, 0.05), 0.8).item() == 0


def test_impossible_tokens_count_nothing_and_get_no_gradient():
    logits = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
    masked = torch.log_softmax(logits.masked_fill(torch.tensor([False, True, False]), -torch.inf), -1)
    p = 1 / (1 + math.exp(-0.5))
    value = entropy_of(masked)
    assert value.item() == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p))
    (slope,) = torch.autograd.grad(value, logits)
    assert slope.isfinite().all()
    assert slope[1] == 0
    (slope,) = torch.autograd.grad(nucleus_entropy(torch.log_softmax(logits, -1), 0.9), logits)
    assert slope.isfinite().all()


@given(seed=st.integers(0, 1000), mass=st.floats(0.05, 0.99))
@settings(max_examples=30)
def test_the_nucleus_is_that_of_a_loop(seed, mass):
    p = np.random.default_rng(seed).dirichlet(np.ones(6))
    kept = []
    for one in sorted(p, reverse=True):
        if kept and sum(kept) + one > mass + 1e-6:
            break
        kept.append(one)
    q = np.array(kept) / sum(kept)
    assert nucleus_entropy(logs(*p), mass).item() == pytest.approx(-(q * np.log(q)).sum(), abs=1e-9)


def test_peaks_lie_strictly_above_the_quantile_of_their_own_trajectory():
    values = flat.tensor([1, 2, 3, 4, 5, 9, 9, 0.1, 0.2, 7])
    segment = torch.tensor([0] * 5 + [1] * 2 + [2] * 3)
    counted = torch.tensor([True] * 9 + [False])
    found = above_quantile(values, segment, counted, 0.8)
    assert found.tolist() == [False] * 4 + [True] + [False] * 2 + [False, True, False]
    few = above_quantile(values, segment, counted, 0.8, fewest=5)
    assert few.tolist() == [False] * 4 + [True] + [True] * 2 + [True, True, False]


# --- SIREN -----------------------------------------------------------------------------------------------------------


def siren_batch():
    """Two trajectories of five tokens; peaks are the last of the first (.9) and the last of the second (.7)."""
    entropy = [0.1, 0.2, 0.3, 0.4, 0.9, 0.0, 0.1, 0.2, 0.3, 0.7]
    return tokens([-1.0] * 10, nucleus_entropy=entropy, segment=[0] * 5 + [1] * 5, weight=[0.1] * 10)


def test_siren_pulls_the_peaks_towards_the_anchor():
    """H = .8, H* = 1: .005·.04 = .0002, and 2·.005·(−.2)/2 per peak."""
    batch = siren_batch()
    value, metrics = Siren(anchor=1.0)(batch)
    assert value.item() == pytest.approx(0.0002, abs=1e-9)
    (slope,) = torch.autograd.grad(value, batch.nucleus_entropy)
    assert slope.tolist() == pytest.approx([0, 0, 0, 0, -0.001] * 2)
    assert metrics == pytest.approx({"entropy/siren_penalty": 0.0002, "entropy/peaks_nats": 0.8})


def test_the_anchor_is_the_first_batch_and_is_remembered():
    batch = siren_batch()
    fixed, memory = Siren().survey(batch, {"other": 1.0}, 0)
    assert memory == {"other": 1.0, ANCHOR: pytest.approx(0.8)}
    assert fixed(batch)[0].item() == pytest.approx(0)
    later = replace(batch, nucleus_entropy=batch.nucleus_entropy.detach() * 2)
    assert Siren(coef=1.0).survey(later, memory, 0)[0](later)[0].item() == pytest.approx(0.8**2)
    pulled, untouched = Siren(coef=1.0, anchor=0.5).survey(batch, {ANCHOR: 9.0}, 0)
    assert (pulled(batch)[0].item(), untouched) == (pytest.approx(0.3**2), {ANCHOR: 9.0})


def test_passes_of_a_surveyed_batch_add_up():
    batch = siren_batch()
    fixed, _ = Siren(anchor=1.5).survey(batch, {}, 0)
    parts = [fixed(flat.part(batch, range(5))), fixed(flat.part(batch, range(5, 10)))]
    whole, metrics = fixed(batch)
    assert sum(value.item() for value, _ in parts) == pytest.approx(whole.item())
    assert sum(one["entropy/peaks_nats"] for _, one in parts) == pytest.approx(metrics["entropy/peaks_nats"])
    slopes = []
    for at in (range(5), range(5, 10)):
        piece = flat.part(batch, at)
        slopes += torch.autograd.grad(fixed(piece)[0], piece.nucleus_entropy)[0].tolist()
    (slope,) = torch.autograd.grad(whole, batch.nucleus_entropy)
    assert slopes == pytest.approx(slope.tolist())


def test_siren_has_the_gradient_of_its_definition():
    batch = siren_batch()
    free = batch.nucleus_entropy.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(0.3 * (free[[4, 9]].mean() - 0.2) ** 2, free)
    (slope,) = torch.autograd.grad(Siren(coef=0.3, anchor=0.2)(batch)[0], batch.nucleus_entropy)
    torch.testing.assert_close(slope, expected)


def test_siren_without_peaks_is_zero_and_learns_no_anchor():
    even = tokens([-1.0] * 6, nucleus_entropy=[0.5] * 6)
    assert Siren(anchor=1.0)(even)[0].item() == 0
    assert Siren().survey(even, {}, 0)[1] == {}
    weightless = tokens([-1.0] * 6, nucleus_entropy=[0.5] * 6, weight=[0.0] * 6)
    assert Siren(anchor=1.0)(weightless)[0].item() == 0


def test_each_setting_of_siren_has_an_effect():
    batch = siren_batch()
    base = Siren(anchor=1.0)(batch)[0].item()
    for change in ({"coef": 0.1}, {"peak": 0.5}, {"anchor": 2.0}):
        assert Siren(**{"anchor": 1.0, **change})(batch)[0].item() != base
    assert Siren(nucleus=0.5).needs.nucleus == 0.5
    for change in ({"coef": 0.0}, {"nucleus": 0.0}, {"peak": 1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(change))}\n  Input should be"):
            Siren(**change)
    with pytest.raises(ShapeError, match="Siren needs 'nucleus_entropy'"):
        Siren()(tokens([-1.0]))


def test_the_bonus_raises_every_token_alike():
    batch = tokens([-1.0] * 2, entropy=[1.0, 2.0], weight=[0.5, 0.0])
    value, metrics = EntropyBonus(coef=0.1)(batch)
    assert (value.item(), metrics) == (pytest.approx(-0.05), {})
    with pytest.raises(ValueError, match="coef = 0 has no effect; leave the entropy bonus out"):
        EntropyBonus(coef=0.0)


# --- covariance ------------------------------------------------------------------------------------------------------

WORKED = {"logprob": [-0.1, -2.0, -0.1, -2.0], "advantage": [1.0, 1.0, -1.0, -1.0]}


def test_covariance_of_a_worked_case():
    found = covariance(flat.tensor(WORKED["logprob"]), flat.tensor(WORKED["advantage"]))
    assert found.tolist() == pytest.approx([0.95, -0.95, -0.95, 0.95])


def chosen(objective, batch):
    return objective(batch).limited.nonzero()[:, 0].tolist()


def test_kl_cov_holds_the_highest_and_ties_go_to_the_first():
    batch = tokens(**WORKED, sampled=[-0.2, -2.0, -0.1, -2.5])
    assert chosen(KlCov(share=0.25), batch) == [0]
    assert chosen(KlCov(share=0.5), batch) == [0, 3]
    assert chosen(KlCov(share=1e-6), batch) == [0]
    value = KlCov(share=0.5, coef=2.0)(batch).value
    assert value.tolist() == pytest.approx([math.exp(0.1) - 0.2, 1.0, -1.0, -math.exp(0.5) - 1.0])
    assert flat.gradient(PolicyLoss(objective=KlCov(share=0.5, coef=2.0)), batch).tolist() == pytest.approx(
        [-math.exp(0.1) + 2, -1.0, 1.0, math.exp(0.5) + 2]
    )


def test_tokens_without_weight_are_not_counted():
    batch = tokens([*WORKED["logprob"], -9.0], advantage=[*WORKED["advantage"], -50.0], weight=[1, 1, 1, 1, 0])
    assert chosen(KlCov(share=0.5), batch) == [0, 3]
    nothing = tokens([-1.0], weight=[0.0])
    assert chosen(KlCov(), nothing) == chosen(ClipCov(), nothing) == []


def clip_cov_batch():
    """Covariances ±1.9 of tokens 0 and 3; 4 to 9 lie at the mean."""
    logprob = [-0.1, -2.0, -0.1, -2.0] + [-1.05] * 6
    return tokens(logprob, sampled=logprob, advantage=[2.0, 2.0, -2.0, -2.0] + [0.0] * 6)


def test_clip_cov_stops_the_gradient_of_a_few():
    batch = tokens(**WORKED, sampled=WORKED["logprob"])
    assert chosen(ClipCov(), batch) == []  # nothing between 1 and 5
    batch = clip_cov_batch()
    one = chosen(ClipCov(), batch)
    assert one in ([0], [3])
    assert chosen(ClipCov(share=0.2), batch) == [0, 3]
    assert chosen(ClipCov(share=1.0), batch) == [0, 3]  # no more candidates
    slopes = flat.gradient(PolicyLoss(objective=ClipCov(share=0.2)), batch)
    assert slopes.tolist() == [0, -2, 2, 0] + [0] * 6


def test_clip_cov_leaves_what_is_clipped_already():
    batch = clip_cov_batch()
    clipped = replace(batch, sampled_logprob=batch.logprob.detach() - flat.tensor([0.5] + [0.0] * 9))
    assert chosen(ClipCov(), clipped) == [0, 3]  # 0 by the clip, 3 by the draw


def drawn(seed, batch):
    act, _ = ClipCov().survey(batch, {}, seed)
    return chosen(act, batch)


def test_the_seed_of_a_loss_is_that_of_the_draw():
    batch = clip_cov_batch()
    for seed in range(12):
        slopes = flat.gradient(PolicyLoss(objective=ClipCov(), seed=seed), batch)
        assert [place for place in (0, 3) if slopes[place] == 0] == drawn(seed, batch)


def test_the_draw_comes_from_the_seed_and_the_data():
    batch = clip_cov_batch()
    draws = {seed: drawn(seed, batch) for seed in range(12)}
    assert set(map(tuple, draws.values())) == {(0,), (3,)}
    assert draws == {seed: drawn(seed, batch) for seed in range(12)}
    assert draws[0] == chosen(ClipCov(), batch)


def test_without_candidates_clip_cov_is_the_clipped_surrogate():
    batch = tokens(**WORKED, sampled=[-0.6, -1.0, -0.3, -2.9])
    plain = Clipped(clip_high=0.2, dual_clip=1e9)
    torch.testing.assert_close(ClipCov()(batch).value, plain(batch).value)


@pytest.mark.parametrize("objective", [KlCov(share=0.3), ClipCov(share=0.3, low=0.1)], ids=repr)
@given(batch=flat.batches())
@settings(max_examples=15)
def test_the_selection_is_that_of_the_whole_batch(objective, batch):
    fixed, memory = objective.survey(batch, {}, 0)
    assert memory == {}
    whole = objective(batch)
    for at in (range(1), range(1, len(batch.logprob))):
        piece = fixed(flat.part(batch, at))
        torch.testing.assert_close(piece.value, whole.value[list(at)])
        assert piece.limited.tolist() == whole.limited[list(at)].tolist()


def test_each_setting_of_the_covariance_methods_has_an_effect():
    batch = clip_cov_batch()
    drift = flat.tensor([0.1, 0.5, -0.5, 0.1] + [0.0] * 6)
    batch = replace(batch, sampled_logprob=batch.sampled_logprob - drift)

    def seen(objective):
        loss = PolicyLoss(objective=objective)
        return loss(batch)[0].item(), *flat.gradient(loss, batch)

    for base, changes in (
        (KlCov(share=0.1), [{"share": 0.4}, {"coef": 3.0}]),
        (
            ClipCov(),
            [
                {"clip_low": 0.5},
                {"clip_high": 0.9},
                {"share": 0.2},
                {"low": 3.0},
                {"high": 1.5},
            ],
        ),
    ):
        for change in changes:
            assert seen(base.model_copy(update=change)) != seen(base), change
    for kind, wrong, problem in (
        (KlCov, {"share": 0.0}, "share\n  Input should be greater than 0"),
        (KlCov, {"coef": 0.0}, "coef\n  Input should be greater than 0"),
        (ClipCov, {"share": 2.0}, "share\n  Input should be less than or equal to 1"),
        (ClipCov, {"clip_low": 2.0}, "clip_low\n  Input should be less than or equal to 1"),
        (ClipCov, {"low": 5.0}, "low 5.0 is not below high 5.0"),
        (ClipCov, {"low": math.nan}, "low nan is not below high 5.0"),
    ):
        with pytest.raises(ValueError, match=problem):
            kind(**wrong)
