"""The learner against plain autograd: the same gradient, however tokens are grouped."""

import models
import numpy as np
import pytest
import torch

from turngate.errors import RunError, StoreError
from turngate.trainer.learner import TorchLearner
from turngate.trainer.loss import ClippedLoss
from turngate.trainer.pack import pack, pack_demonstrations, split
from turngate.types import Batch, Source

LOSS = ClippedLoss(entropy_bonus=0.01)


def learner(seed=0, **settings):
    return TorchLearner(models.model(seed), lr=1e-3, **settings)


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
    np.testing.assert_allclose(gradient(taught), by_hand, atol=1e-6)
    assert 0 < metrics["policy/clipped_share"] < 1


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
        np.testing.assert_allclose(gradient(other), expected, atol=1e-6)
        assert same == pytest.approx(metrics, abs=1e-5)


@pytest.mark.parametrize("limit", [1, 30, 10_000])
def test_a_pass_holds_no_more_padded_tokens_than_allowed_and_at_least_one_segment(limit):
    taught, shapes = learner(tokens_per_pass=limit), []
    taught.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    batch = batch_of()
    taught.forward_backward(batch, LOSS)
    assert sum(rows for rows, _ in shapes) == batch.n_segments
    assert all(rows * width <= limit or rows == 1 for rows, width in shapes)
    assert len(shapes) == {1: 6, 30: 3, 10_000: 1}[limit]


@pytest.mark.parametrize("aggregate", ["token", "sequence", "turn"])
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
    np.testing.assert_allclose(gradient(pieces), gradient(whole), atol=1e-6)


def test_the_parts_of_a_split_average_to_the_batch_when_they_weigh_alike():
    batch = batch_of(aggregate="sequence")
    whole = learner()
    whole.forward_backward(batch, LOSS)
    parts = []
    for part in split(batch, 3):
        one = learner()
        one.forward_backward(part, LOSS)
        parts.append(gradient(one))
    np.testing.assert_allclose(np.mean(parts, 0), gradient(whole), atol=1e-6)


def test_only_policy_tokens_get_gradient():
    """Embeddings of ids that stand only after the last policy token, or nowhere, are not touched."""
    said = [Source.POLICY, Source.POLICY]
    early = models.turn([5, 6], [7, 8], source=[Source.CONTEXT] * 2 + said)
    late = models.turn([9], [10, 11], source=[Source.CONTEXT] + [Source.GUIDE] * 2)
    batch = pack([models.scored([models.trajectory([early, late])])], np.array([1.0, 5.0], np.float32))
    whole, bare = learner(), learner()
    whole.forward_backward(batch, ClippedLoss())
    alone = pack([models.scored([models.trajectory([early])])], np.array([1.0], np.float32))
    bare.forward_backward(alone, ClippedLoss())
    np.testing.assert_allclose(gradient(whole), gradient(bare), atol=1e-7)
    assert np.abs(gradient(whole)).max() > 0


def test_an_advantage_of_zero_moves_nothing():
    batch = batch_of()
    still = Batch(
        **{name: getattr(batch, name) for name in Batch.__dataclass_fields__ if name != "advantage_L"},
        advantage_L=np.zeros_like(batch.advantage_L),
    )
    taught = learner()
    taught.forward_backward(still, ClippedLoss())
    assert not gradient(taught).any()


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_logprobs_are_those_of_a_plain_forward_pass(temperature):
    batch, taught = batch_of(), learner(temperature=temperature, tokens_per_pass=40)
    got = taught.logprobs(batch)
    assert got.dtype == np.float32
    for segment in range(batch.n_segments):
        at = batch.segment_L == segment
        naive = models.naive_logprobs(taught.model, batch.ids_L[at], temperature)
        np.testing.assert_allclose(got[at], np.where(batch.policy_weight_L[at] > 0, naive, 0), atol=1e-5)
    assert all(weight.grad is None for weight in taught.model.parameters())


def test_a_step_clips_scales_and_forgets():
    taught = learner(clip_norm=1e-3)
    taught.forward_backward(batch_of(), LOSS)
    norm = np.linalg.norm(gradient(taught))
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    metrics = taught.optim_step(lr_scale=0.5)
    assert metrics == pytest.approx({"learner/grad_norm": norm, "learner/lr": 5e-4}, rel=1e-4)
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


def test_going_on_from_a_saved_state_gives_the_same_bits(tmp_path):
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


def test_what_is_not_finite_stops_the_run():
    taught, batch = learner(), batch_of()
    batch.advantage_L[np.flatnonzero(batch.policy_weight_L)[0]] = np.nan
    with pytest.raises(RunError, match="the loss is nan"):
        taught.forward_backward(batch, LOSS)
    taught = learner()
    taught.forward_backward(batch_of(), LOSS)
    next(taught.model.parameters()).grad[0] = float("inf")
    before = {name: weight.clone() for name, weight in taught.weights().items()}
    with pytest.raises(RunError, match="the gradient norm is inf; nothing was updated"):
        taught.optim_step()
    assert all(torch.equal(weight, before[name]) for name, weight in taught.weights().items())


def test_demonstrations_give_the_gradient_of_cross_entropy():
    rng = np.random.default_rng(0)
    trajectories = models.random_trajectories(rng, 3, vocabulary=280)
    batch, taught, plain = pack_demonstrations(trajectories), learner(), models.model()
    metrics = taught.forward_backward(batch, ClippedLoss())
    total, n = 0.0, 0
    for trajectory in trajectories:
        ids = torch.as_tensor(trajectory.ids(), dtype=torch.long)
        labels = torch.where(torch.as_tensor(np.concatenate([t.source for t in trajectory.turns])) == 1, ids, -100)
        logits = plain(ids[None]).logits[0]
        total = total + torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100, reduction="sum")
        n += int((labels != -100).sum())
    (total / n).backward()
    expected = torch.cat([weight.grad.flatten() for weight in plain.parameters()]).numpy()
    np.testing.assert_allclose(gradient(taught), expected, atol=1e-6)
    assert metrics["loss/imitation"] == pytest.approx(total.item() / n, rel=1e-5)
