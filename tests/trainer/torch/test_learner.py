"""The learner against plain autograd: the same gradient, however tokens are grouped."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.numbers import near
from tests.helpers.rounding import GRADIENT, PASS, assert_alike, assert_logprobs
from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.errors import ConfigError, ShapeError, StoreError
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.batch.pack import pack, pack_demonstrations, split
from turngate.trainer.learner import measured_for
from turngate.trainer.loss.corrections import GeometricRejection, Truncated
from turngate.trainer.loss.covariance import ClipCov, KlCov
from turngate.trainer.loss.entropy import EntropyBonus, Siren, nucleus_entropy
from turngate.trainer.loss.kl import KlPenalty
from turngate.trainer.loss.objectives import Clipped, Gmpo, Gspo, Reinforce, SimKo
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.shaping import RlPlus, Shaped
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Batch, Source

LOSS = PolicyLoss(penalties=(EntropyBonus(coef=0.01),))


def learner(seed=0, **settings):
    return models.learner(models.model(seed), **settings)


def batch_of(order=None, seed=0, n=6, aggregate="token", source=None):
    """A batch near the model's policy, so that ratios lie inside and outside the clip."""
    rng = np.random.default_rng(seed)
    trajectories = models.random_trajectories(rng, n, vocabulary=280)
    reference = models.model()
    near = []
    for trajectory in trajectories:
        naive, place, turns = models.naive_logprobs(reference, trajectory.ids()), 0, []
        for turn in trajectory.turns:
            start = place + len(turn.context_ids)
            place = start + len(turn.completion.ids_K)
            sampled = naive[start:place] + rng.normal(scale=0.3, size=place - start)
            turns.append(models.turn(turn.context_ids, turn.completion.ids_K, logprobs=sampled, source=source))
        near.append(models.trajectory(turns, name=trajectory.id))
    advantages = [rng.normal(size=len(t.turns)).astype(np.float32) for t in near]
    chosen = list(range(n)) if order is None else order
    group = models.scored([near[i] for i in chosen])
    return pack([group], np.concatenate([advantages[i] for i in chosen]), aggregate=aggregate)


def gradient(of: TorchLearner) -> np.ndarray:
    return torch.cat([weight.grad.flatten() for weight in of.model.parameters()]).numpy().copy()


def gradient_by_hand(batch: Batch, temperature=1.0, bonus=0.01) -> np.ndarray:
    """One segment at a time, the surrogate written out in full."""
    model = models.model()
    total = 0.0
    for segment in range(batch.n_segments):
        at = np.flatnonzero(batch.segment_L == segment)
        logits = model(torch.as_tensor(batch.ids_L[at], dtype=torch.long)[None]).logits[0] / temperature
        distribution = torch.log_softmax(logits, -1)
        for place, flat in enumerate(at):
            weight, advantage = float(batch.policy_weight_L[flat]), float(batch.advantage_L[flat])
            if weight == 0:
                continue
            before = distribution[place - 1]
            ratio = (before[batch.ids_L[flat]] - float(batch.logprob_L[flat])).exp()
            objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
            if advantage < 0:
                objective = torch.clamp(objective, min=3 * advantage)
            total = total - weight * objective - bonus * weight * -(before.exp() * before).sum()
    total.backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()]).numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_gradient_is_that_of_the_written_out_objective(temperature):
    batch, taught = batch_of(), learner(temperature=temperature)
    metrics = taught.forward_backward(batch, LOSS)
    by_hand = gradient_by_hand(batch, temperature)
    assert np.abs(by_hand).max() > 0.01
    assert_alike(gradient(taught), by_hand, GRADIENT)
    assert 0 < metrics["policy/clipped_share"] < 1


def test_auto_holds_fewer_tokens_at_once_on_a_cpu_and_learns_the_same():
    batch = batch_of(list(range(6)) * 60)
    passes, gradients = {}, {}
    for limit in ("auto", 16_384):
        taught, widths = learner(tokens_per_pass=limit, packing="rows"), []
        taught.model.base_model.register_forward_pre_hook(
            lambda module, args, kwargs, widths=widths: widths.append(kwargs["input_ids"].numel()), with_kwargs=True
        )
        taught.forward_backward(batch, LOSS)
        passes[limit], gradients[limit] = widths, gradient(taught)
    assert max(passes["auto"]) <= 4096 < max(passes[16_384])
    assert_alike(gradients["auto"], gradients[16_384], GRADIENT)


def test_grouping_and_order_of_tokens_leave_the_gradient_unchanged():
    whole = learner()
    metrics = whole.forward_backward(batch_of(), LOSS)
    expected = gradient(whole)
    for variant, settings in (
        (batch_of(), {"tokens_per_pass": 1}),
        (batch_of(), {"tokens_per_pass": 30}),
        (batch_of([3, 1, 5, 0, 2, 4]), {}),
        (batch_of([5, 4, 3, 2, 1, 0]), {"tokens_per_pass": 25}),
    ):
        other = learner(**settings)
        same = other.forward_backward(variant, LOSS)
        assert_alike(gradient(other), expected, GRADIENT)
        assert same == near(metrics, PASS)


@pytest.mark.parametrize("limit", [1, 30, 10_000])
def test_a_pass_holds_no_more_padded_tokens_than_allowed_and_at_least_one_segment(limit):
    taught, shapes = learner(tokens_per_pass=limit, packing="rows"), []
    taught.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    batch = batch_of()
    taught.forward_backward(batch, LOSS)
    assert sum(rows for rows, _ in shapes) == batch.n_segments
    assert all(rows * width <= limit or rows == 1 for rows, width in shapes)
    assert len(shapes) == {1: 6, 30: 3, 10_000: 1}[limit]


@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn", "sum", 50])
def test_micro_batches_add_up_to_the_batch(aggregate):
    """Segments one by one with the weights that they have in the whole batch."""
    batch = batch_of(aggregate=aggregate)
    whole, pieces = learner(), learner()
    whole.forward_backward(batch, LOSS)
    for segment in range(batch.n_segments):
        at = batch.segment_L == segment
        columns = {name: getattr(batch, name)[at] for name in Batch.__dataclass_fields__}
        columns["segment_L"] = np.zeros(at.sum(), np.int32)
        pieces.forward_backward(Batch(**columns), LOSS)
    assert_alike(gradient(pieces), gradient(whole), GRADIENT)


@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn", "sum", 50])
def test_the_parts_of_a_split_average_to_the_batch(aggregate):
    batch = batch_of(aggregate=aggregate)
    whole = learner()
    whole.forward_backward(batch, LOSS)
    parts = []
    for part, _ in split(batch, {}, 3):
        one = learner()
        one.forward_backward(part, LOSS)
        parts.append(gradient(one))
    assert_alike(np.mean(parts, 0), gradient(whole), GRADIENT)


def test_only_policy_tokens_get_gradient():
    """Embeddings of ids that stand only after the last policy token, or nowhere, are not touched."""
    said = [Source.POLICY, Source.POLICY]
    early = models.turn([5, 6], [7, 8], source=[Source.CONTEXT] * 2 + said)
    late = models.turn([9], [10, 11], source=[Source.CONTEXT] + [Source.GUIDE] * 2)
    batch = pack([models.scored([models.trajectory([early, late])])], np.array([1.0, 5.0], np.float32))
    whole, bare = learner(), learner()
    whole.forward_backward(batch, PolicyLoss())
    alone = pack([models.scored([models.trajectory([early])])], np.array([1.0], np.float32))
    bare.forward_backward(alone, PolicyLoss())
    assert_alike(gradient(whole), gradient(bare), GRADIENT)
    assert np.abs(gradient(whole)).max() > 0


def test_an_advantage_of_zero_moves_nothing():
    batch = batch_of()
    still = Batch(
        **{name: getattr(batch, name) for name in Batch.__dataclass_fields__ if name != "advantage_L"},
        advantage_L=np.zeros_like(batch.advantage_L),
    )
    taught = learner()
    taught.forward_backward(still, PolicyLoss())
    assert not gradient(taught).any()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_logprobs_are_those_of_a_plain_forward_pass(temperature):
    batch, taught = batch_of(), learner(temperature=temperature, tokens_per_pass=40)
    got = taught.logprobs(batch)
    assert got.dtype == np.float32
    for segment in range(batch.n_segments):
        at = batch.segment_L == segment
        naive = models.naive_logprobs(taught.model, batch.ids_L[at], temperature)
        assert_logprobs(got[at], np.where(batch.policy_weight_L[at] > 0, naive, 0), PASS)
    assert all(weight.grad is None for weight in taught.model.parameters())


def test_a_step_clips_scales_and_forgets():
    taught = learner(clip_norm=1e-3)
    taught.forward_backward(batch_of(), LOSS)
    norm = np.linalg.norm(gradient(taught))
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    metrics = taught.optim_step(lr_scale=0.5)
    assert metrics == pytest.approx(
        {"learner/grad_norm": norm, "learner/lr": 5e-4, "learner/skipped_updates": 0}, rel=1e-4
    )
    assert all(weight.grad is None for weight in taught.model.parameters())
    moved = max(float((weight - before[name]).abs().max()) for name, weight in taught.weights().items())
    assert moved == pytest.approx(5e-4, rel=1e-2)  # AdamW's first step moves by the learning rate


def test_weights_are_the_live_parameters():
    taught = learner()
    assert taught.weights().keys() == dict(taught.model.named_parameters()).keys()
    assert all(not weight.requires_grad for weight in taught.weights().values())


def descend(of, seeds):
    for seed in seeds:
        of.forward_backward(batch_of(seed=seed), LOSS)
        of.optim_step()
    return {name: weight.clone() for name, weight in of.weights().items()}


def test_resume_from_a_saved_state_gives_the_same_bits(tmp_path):
    taught, other = learner(0, weight_decay=0.1), learner(1, weight_decay=0.1)
    descend(taught, [0, 1])
    taught.save(tmp_path / "state.pt")
    expected = descend(taught, [2, 3])
    other.load(tmp_path / "state.pt")
    got = descend(other, [2, 3])
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    fresh = learner(1, weight_decay=0.1)
    with torch.no_grad():
        taught.load(tmp_path / "state.pt")
        for name, weight in fresh.model.named_parameters():
            weight.copy_(taught.weights()[name])
    without_moments = descend(fresh, [2, 3])
    assert not all(torch.equal(without_moments[name], expected[name]) for name in expected)


def test_the_state_of_another_model_is_refused(tmp_path):
    from turngate.agents import tiny

    small = tiny.random_model(models.tokenizer(), layers=1, width=16, heads=2, context=64, seed=0)
    TorchLearner(small, lr=1e-3).save(tmp_path / "state.pt")
    with pytest.raises(StoreError, match="holds the weights of another model"):
        learner().load(tmp_path / "state.pt")


def test_demonstrations_give_the_gradient_of_cross_entropy():
    rng = np.random.default_rng(0)
    trajectories = models.random_trajectories(rng, 3, vocabulary=280)
    batch, taught, plain = pack_demonstrations(trajectories), learner(), models.model()
    metrics = taught.forward_backward(batch, PolicyLoss())
    total, n = 0.0, 0
    for trajectory in trajectories:
        ids = torch.as_tensor(trajectory.ids(), dtype=torch.long)
        labels = torch.where(torch.as_tensor(np.concatenate([t.source for t in trajectory.turns])) == 1, ids, -100)
        logits = plain(ids[None]).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100, reduction="sum")
        n += int((labels != -100).sum())
    (total / n).backward()
    expected = torch.cat([weight.grad.flatten() for weight in plain.parameters()]).numpy()
    assert_alike(gradient(taught), expected, GRADIENT)
    assert metrics["loss/imitation"] == near(total.item() / n, PASS)


# --- losses that ask for more ----------------------------------------------------------------------------------------

WIDE = (Truncated(unit="turn", reduce="mean"), GeometricRejection(low=0.5, high=1.5))
RICH = [
    PolicyLoss(objective=Gspo(unit="turn", clip_low=0.1, clip_high=0.1)),
    PolicyLoss(objective=Gspo(clip_low=0.1, clip_high=0.1), penalties=(EntropyBonus(coef=0.01),)),
    PolicyLoss(objective=Gmpo(unit="turn"), correction=WIDE, normalize=True, decoupled=True),
    PolicyLoss(objective=KlCov(share=0.1), penalties=(Siren(anchor=2.0, coef=0.1),)),
    PolicyLoss(objective=ClipCov(share=0.1, low=0.1)),
    PolicyLoss(objective=SimKo(candidates=2, alpha=0.2), penalties=(KlPenalty(coef=0.1),)),
    PolicyLoss(
        objective=Reinforce(), correction=WIDE, normalize=True, penalties=(KlPenalty(coef=0.1, target=1.0, horizon=10),)
    ),
]


def columns_of(batch):
    """A snapshot and a reference that both differ from the policy: other models."""
    return {"proximal_L": learner(3).logprobs(batch), "reference_L": learner(4).logprobs(batch)}


@pytest.mark.parametrize("loss", RICH, ids=lambda loss: type(loss.objective).__name__)
def test_passes_and_packing_order_leave_every_gradient_unchanged(loss):
    def run(batch, **settings):
        taught = learner(**settings)
        return taught.forward_backward(batch, loss, measured=columns_of(batch)), gradient(taught)

    metrics, expected = run(batch_of())
    assert np.abs(expected).max() > 1e-4
    for variant, settings in (
        (batch_of(), {"tokens_per_pass": 1}),
        (batch_of([3, 1, 5, 0, 2, 4]), {"tokens_per_pass": 60}),
    ):
        same, got = run(variant, **settings)
        assert_alike(got, expected, GRADIENT)
        assert same == near(metrics, PASS)


@pytest.mark.parametrize("limit", [1, 30, 10_000])
def test_no_trajectory_is_ever_cut_across_passes(limit):
    """Sums over a turn or a trajectory are right only then."""
    batch, seen = batch_of(), []

    def spy(tokens):
        seen.append(tokens)
        return tokens.logprob.sum() * 0, {}

    learner(tokens_per_pass=limit).forward_backward(batch, spy)
    places = torch.cat([tokens.place for tokens in seen]).numpy()
    assert sorted(places) == np.flatnonzero(batch.policy_weight_L).tolist()
    whole = [set(tokens.segment.tolist()) for tokens in seen]
    assert sum(map(len, whole)) == len(set().union(*whole)) == batch.n_segments
    for tokens in seen:
        at = tokens.place.numpy()
        np.testing.assert_array_equal(tokens.segment, batch.segment_L[at])
        np.testing.assert_array_equal(tokens.turn, batch.turn_L[at])
        np.testing.assert_array_equal(tokens.sampled_logprob, batch.logprob_L[at])
        assert tokens.total == pytest.approx(1)


def test_gspo_per_turn_has_the_gradient_of_a_forward_pass_written_out():
    batch, model = batch_of(aggregate="turn"), models.model()
    taught = learner()
    taught.forward_backward(batch, PolicyLoss(objective=Gspo(unit="turn", clip_low=0.05, clip_high=0.05)))
    total = 0.0
    for segment in range(batch.n_segments):
        at = np.flatnonzero(batch.segment_L == segment)
        ids = torch.as_tensor(batch.ids_L[at], dtype=torch.long)
        predicted = torch.log_softmax(model(ids[None]).logits[0], -1)[:-1].gather(1, ids[1:, None])[:, 0]
        for turn in range(batch.turn_L[at].max() + 1):
            spoken = np.flatnonzero((batch.turn_L[at] == turn) & (batch.policy_weight_L[at] > 0))
            x = predicted[spoken - 1] - torch.as_tensor(batch.logprob_L[at][spoken])
            s, a = x.mean().exp(), float(batch.advantage_L[at][spoken[0]])
            weight = float(batch.policy_weight_L[at][spoken].sum())
            total = total - weight * torch.minimum(s * a, s.clamp(0.95, 1.05) * a)
    total.backward()
    expected = torch.cat([weight.grad.flatten() for weight in model.parameters()]).numpy()
    assert_alike(gradient(taught), expected, GRADIENT)


def test_what_a_loss_asks_for_is_what_the_model_says():
    batch, seen = batch_of(), []

    class Curious:
        needs = SimKo(candidates=4).needs | Siren(nucleus=0.7).needs

        def __call__(self, tokens):
            seen.append(tokens)
            return tokens.logprob.sum(), {}

    learner(temperature=0.8).forward_backward(batch, Curious(), measured={"reference_L": -batch.logprob_L})
    (tokens,) = seen
    place = int(tokens.place[0])
    start = np.flatnonzero(batch.position_L[: place + 1] == 0)[-1]
    ids = torch.as_tensor(batch.ids_L[start:place], dtype=torch.long)
    row = torch.log_softmax(models.model()(ids[None]).logits[0, -1] / 0.8, -1)
    assert_logprobs(tokens.candidate_logprob[0], row.topk(4).values, PASS)
    assert_logprobs(tokens.nucleus_entropy[0], nucleus_entropy(row, 0.7), PASS)
    assert tokens.reference_logprob[0] == -batch.logprob_L[place]
    assert tokens.proximal_logprob is None


def test_what_losses_remember_is_saved_with_the_learner(tmp_path):
    loss, batch = PolicyLoss(objective=Clipped(), penalties=(Siren(coef=1.0),)), batch_of()
    taught, other = learner(), learner(2)
    first = taught.forward_backward(batch, loss)
    assert first["entropy/siren_penalty"] == pytest.approx(0)
    taught.save(tmp_path / "state.pt")
    taught.optim_step()
    moved = taught.forward_backward(batch, loss)["entropy/siren_penalty"]
    assert moved > 1e-7
    other.forward_backward(batch, loss)  # an anchor of its own, which loading replaces
    other.load(tmp_path / "state.pt")
    other.optim_step()
    other.load(tmp_path / "state.pt")
    with torch.no_grad():
        for name, weight in other.model.named_parameters():
            weight.copy_(taught.weights()[name])
    assert other.forward_backward(batch, loss)["entropy/siren_penalty"] == pytest.approx(moved)


def test_columns_that_are_missing_or_do_not_fit_are_named():
    batch = batch_of()
    decoupled = PolicyLoss(objective=Clipped(), decoupled=True)
    with pytest.raises(
        ShapeError, match=r"the loss needs column 'proximal_L', but only \['reference_L'\] were measured"
    ):
        learner().forward_backward(batch, decoupled, measured={"reference_L": batch.logprob_L})
    with pytest.raises(ShapeError, match=r"proximal_L has shape \(2,\), expected"):
        learner().forward_backward(batch, decoupled, measured={"proximal_L": batch.logprob_L[:2]})


def test_a_snapshot_is_used_by_decoupled_losses_only():
    batch = batch_of()
    measured = {"proximal_L": batch.logprob_L - 0.5}
    plain, given, decoupled = learner(), learner(), learner()
    plain.forward_backward(batch, PolicyLoss())
    given.forward_backward(batch, PolicyLoss(), measured=measured)
    decoupled.forward_backward(batch, PolicyLoss(objective=Clipped(), decoupled=True), measured=measured)
    np.testing.assert_array_equal(gradient(plain), gradient(given))
    assert np.abs(gradient(plain) - gradient(decoupled)).max() > 1e-4


def test_a_snapshot_of_the_learner_itself_is_on_policy():
    batch, taught, plain = batch_of(), learner(), learner()
    measured = {"proximal_L": taught.logprobs(batch)}
    metrics = taught.forward_backward(batch, PolicyLoss(objective=Clipped(), decoupled=True), measured=measured)
    plain.forward_backward(batch, PolicyLoss(objective=Reinforce()))
    assert_alike(gradient(taught), gradient(plain), GRADIENT)
    assert metrics["policy/clipped_share"] == 0


def test_what_a_loss_needs_is_measured_by_the_weights_before_the_update():
    batch, taught, reference = batch_of(), learner(), learner(4)
    assert measured_for(PolicyLoss(), batch, taught, None) == {}
    loss = PolicyLoss(objective=Clipped(), penalties=(KlPenalty(),), decoupled=True)
    found = measured_for(loss, batch, taught, reference)
    np.testing.assert_array_equal(found["proximal_L"], learner().logprobs(batch))
    np.testing.assert_array_equal(found["reference_L"], learner(4).logprobs(batch))
    metrics = taught.forward_backward(batch, loss, measured=found)
    assert metrics["policy/kl_to_reference_nats"] > 0
    with pytest.raises(ConfigError, match="the loss needs a reference model, and there is none"):
        measured_for(loss, batch, taught, None)


def test_tokens_whose_sampler_logprob_was_never_recorded(caplog):
    batch = batch_of()
    at = np.flatnonzero(batch.policy_weight_L)[:3]
    batch.logprob_L[at] = np.nan
    with pytest.raises(ShapeError, match=f"the sampler's logprob of token {at[0]} is nan; loss.decoupled = true does"):
        learner().forward_backward(batch, PolicyLoss())
    taught = learner()
    loss = PolicyLoss(objective=Clipped(), correction=(Truncated(),), decoupled=True)
    with caplog.at_level(logging.WARNING):
        metrics = taught.forward_backward(batch, loss, measured={"proximal_L": taught.logprobs(batch)})
    assert "3 policy tokens have no sampler logprob: their off-policy weight is 1" in caplog.text
    assert np.isfinite(list(metrics.values())).all()
    assert np.isfinite(gradient(taught)).all()


def test_an_objective_without_a_ratio_needs_no_sampler_logprobs():
    """It learns what it would with them; what compares with the sampler is not reported."""
    batch, loss, gradients = batch_of(), PolicyLoss(objective=Reinforce()), []
    for missing in (False, True):
        if missing:
            batch.logprob_L[:] = np.nan
        taught = learner()
        metrics = taught.forward_backward(batch, loss)
        assert ("policy/kl_to_sampler_nats" in metrics) is not missing
        assert np.isfinite(list(metrics.values())).all()
        gradients.append(gradient(taught))
    assert np.array_equal(*gradients)


def test_a_hinted_token_cannot_be_filled_in_without_the_hint():
    batch = batch_of()
    at = np.flatnonzero(batch.policy_weight_L)[0]
    batch.logprob_L[at], batch.origin_L[at] = np.nan, Origin.HINTED
    taught = learner()
    with pytest.raises(ShapeError, match=f"logprob of token {at} is nan, and it was sampled with a hint"):
        taught.forward_backward(
            batch, PolicyLoss(objective=Clipped(), decoupled=True), measured={"proximal_L": taught.logprobs(batch)}
        )


# --- truncated sampling ----------------------------------------------------------------------------------------------


def truncated_batch(top_p=0.7, top_k=20):
    """Every policy token replaced by what the model would sample truncated, with the sampler's logprob of it."""
    batch, model, rng = batch_of(), models.model(), np.random.default_rng(0)
    ids_L, logprob_L = batch.ids_L.copy(), batch.logprob_L.copy()
    with torch.no_grad():
        for place in np.flatnonzero(batch.policy_weight_L):
            start = np.flatnonzero(batch.position_L[: place + 1] == 0)[-1]
            logits = model(torch.as_tensor(ids_L[start:place], dtype=torch.long)[None]).logits[0, -1]
            row = truncated_log_softmax(logits, 1.0, top_p, top_k)
            ids_L[place] = rng.choice(len(row), p=(p := row.double().exp().numpy()) / p.sum())
            logprob_L[place] = row[ids_L[place]]
    return replace(batch, ids_L=ids_L, logprob_L=logprob_L)


def test_sampler_and_learner_of_one_truncation_agree():
    """On-policy all ratios are 1; a learner that ignores the truncation is off by the kept mass."""
    batch = truncated_batch()
    spoken = batch.policy_weight_L > 0
    same, blind = learner(top_p=0.7, top_k=20), learner()
    assert_logprobs(same.logprobs(batch)[spoken], batch.logprob_L[spoken], PASS)
    assert (np.exp(blind.logprobs(batch) - batch.logprob_L)[spoken] < 0.75).all()
    metrics = same.forward_backward(batch, PolicyLoss())
    assert metrics["policy/kl_to_sampler_nats"] == near(0, PASS)
    assert metrics["policy/outside_support_share"] == 0
    plain = learner(top_p=0.7, top_k=20)
    plain.forward_backward(batch, PolicyLoss(objective=Reinforce()))
    assert_alike(gradient(same), gradient(plain), GRADIENT)


@pytest.mark.parametrize("objective", [Clipped(), Gspo(), Reinforce()], ids=repr)
def test_tokens_outside_the_learners_support_count_nothing_and_keep_their_place(objective):
    batch = truncated_batch()
    narrow = learner(top_k=5)
    outside = np.isneginf(narrow.logprobs(batch))
    assert 0 < outside.sum() < (batch.policy_weight_L > 0).sum()
    metrics = narrow.forward_backward(batch, PolicyLoss(objective=objective))
    share = batch.policy_weight_L[outside].sum()
    assert metrics["policy/outside_support_share"] == pytest.approx(share)
    assert np.isfinite(gradient(narrow)).all()
    without = learner(top_k=5)
    zeroed = replace(batch, policy_weight_L=np.where(outside, 0, batch.policy_weight_L).astype(np.float32))
    without.forward_backward(zeroed, PolicyLoss(objective=objective))
    assert_alike(gradient(narrow), gradient(without), GRADIENT)


@pytest.mark.parametrize("experts", [Shaped(), RlPlus()], ids=repr)
def test_what_an_expert_wrote_is_never_cut(experts):
    """No sampler drew it: numerator and denominator of its weight are over the whole vocabulary."""
    batch = batch_of()
    zeros_L, experts_L = np.zeros_like(batch.logprob_L), np.full_like(batch.origin_L, Origin.EXPERT)
    batch = replace(batch, origin_L=experts_L, logprob_L=zeros_L)
    found = []
    for taught in (learner(), learner(top_k=3)):
        loss = PolicyLoss(experts=experts)
        metrics = taught.forward_backward(batch, loss, measured=measured_for(loss, batch, taught, None))
        found.append((metrics["loss/expert"], gradient(taught)))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-6)


def test_an_experts_tokens_are_compared_with_the_snapshot_over_the_whole_vocabulary():
    """Top-k cuts most of an expert's tokens off, in the snapshot too: there they must not count as certain."""
    batch = truncated_batch()
    spoken = batch.policy_weight_L > 0
    batch = replace(batch, origin_L=np.where(spoken, Origin.EXPERT, Origin.OWN).astype(np.uint8))
    narrow, loss = learner(top_k=3), PolicyLoss(experts=RlPlus())
    p = np.exp(narrow.logprobs(batch, whole=True))[spoken]
    metrics = narrow.forward_backward(batch, loss, measured=measured_for(loss, batch, narrow, None))
    worth = 2 * p / (1.5 * p + 0.5) * np.sqrt(1 - p)
    assert metrics["loss/expert"] == pytest.approx(
        -(batch.policy_weight_L * batch.advantage_L)[spoken] @ worth, rel=1e-4
    )


def test_cross_entropy_does_not_care_about_truncation():
    trajectories = models.random_trajectories(np.random.default_rng(0), 3, vocabulary=280)
    batch, plain, narrow = pack_demonstrations(trajectories), learner(), learner(top_p=0.2, top_k=3)
    first = plain.forward_backward(batch, PolicyLoss())
    second = narrow.forward_backward(batch, PolicyLoss())
    assert second["loss/imitation"] == near(first["loss/imitation"], PASS)
    assert_alike(gradient(narrow), gradient(plain), GRADIENT)


# --- looking at the gradient -----------------------------------------------------------------------------------------


def test_the_gradient_of_tokens_times_that_of_logprobs_is_the_gradient():
    batch = batch_of()
    taught, whole = learner(tokens_per_pass=30), learner()
    coefficient_L = taught.token_gradient(batch, PolicyLoss())
    assert ((coefficient_L != 0) <= (batch.policy_weight_L > 0)).all()
    norm = taught.gradient_norm(batch, coefficient_L)
    assert all(weight.grad is None for weight in taught.model.parameters())
    whole.forward_backward(batch, PolicyLoss())
    assert norm == pytest.approx(np.linalg.norm(gradient(whole)), rel=1e-4)


def test_the_gradient_of_tokens_shows_what_is_compared_over_the_whole_vocabulary():
    batch, taught = truncated_batch(), learner(top_p=0.7, top_k=20)
    loss = PolicyLoss(penalties=(KlPenalty(coef=1.0),))
    batch = replace(batch, advantage_L=np.zeros_like(batch.advantage_L))
    measured = measured_for(loss, batch, taught, learner(4))
    x_L = taught.logprobs(batch, whole=True) - measured["reference_L"]
    np.testing.assert_allclose(
        taught.token_gradient(batch, loss, measured=measured), batch.policy_weight_L * x_L, atol=1e-5
    )


def test_looking_remembers_nothing():
    taught, batch = learner(), batch_of()
    taught.token_gradient(batch, PolicyLoss(objective=Clipped(), penalties=(Siren(),)))
    assert taught._memory == {}
