"""The canary is silent on an honest pair and names the turn where sampler and learner part."""

import asyncio
import copy
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from tests.helpers import models
from turngate.agents import tiny
from turngate.agents.policies.forward import cast
from turngate.errors import MismatchError
from turngate.trainer.batch.pack import pack, pack_demonstrations
from turngate.trainer.checks.canary import PROBE_TOKENS, check_agreement, longest, mean_limit, probe
from turngate.trainer.learner import TOLERANCES
from turngate.trainer.loss.policy_loss import PolicyLoss

TOLERANCE = 1e-4


def learner(temperature=1.0, **truncation):
    return models.learner(lr=1e-2, temperature=temperature, **truncation)


def spoken(policy, *, seed=0, **sampling):
    """A probe over the two longest of some recorded episodes."""
    played = longest(models.play(models.local(), n_tasks=4, siblings=1), 2)
    return asyncio.run(asyncio.wait_for(probe(models.player(policy, **sampling), played, seed=seed), 60))


def blamed(batch, taught):
    """The turn that the MismatchError names."""
    with pytest.raises(MismatchError) as caught:
        check_agreement(batch, taught, tolerance=TOLERANCE)
    return int(re.match(r"sampler and learner differ at turn (\d+): token \d+ at position \d+ ", str(caught.value))[1])


def updated(taught):
    """A learner after one step that changed its policy."""
    taught.forward_backward(pack_demonstrations(models.play(models.local(), n_tasks=2)), PolicyLoss())
    taught.optim_step()
    return taught


def forgets_the_last_token(policy, monkeypatch):
    """The usual mistake of a cache across turns: what was sampled last counts as fed and never was."""

    def finish(index, go_on=policy._finish):
        row, last = policy._rows[index], policy._rows[index].job.ids[-1]
        go_on(index)
        row.fed = np.append(row.fed, np.int32(last))

    monkeypatch.setattr(policy, "_finish", finish)


def test_an_honest_pair_agrees():
    policy = models.local()
    played = models.play(policy, n_tasks=3)
    batch = pack([models.scored(played[:3])], np.zeros(sum(len(t.turns) for t in played[:3]), np.float32))
    for agreed in (batch, spoken(policy)):
        metrics = check_agreement(agreed, learner(), tolerance=TOLERANCE)
        assert 0 <= metrics["canary/max_logprob_difference"] < TOLERANCE


def test_an_honest_pair_agrees_after_an_update_and_at_another_temperature():
    policy, taught = models.local(), updated(learner(0.7))
    asyncio.run(policy.publish(taught.weights(), 1))
    check_agreement(spoken(policy, temperature=0.7), taught, tolerance=TOLERANCE)


def test_a_publish_that_was_skipped_shows_from_the_first_turn():
    policy, taught = models.local(), updated(learner())
    assert blamed(spoken(policy), taught) == 0


def test_another_temperature_shows_from_the_first_turn():
    assert blamed(spoken(models.local(), temperature=0.7), learner(1.0)) == 0
    assert blamed(spoken(models.local(), temperature=1.0), learner(1.1)) == 0


def test_a_cache_that_forgets_between_turns_shows_from_the_second(monkeypatch):
    policy = models.local()
    forgets_the_last_token(policy, monkeypatch)
    assert blamed(spoken(policy), learner()) == 1
    played = models.play(policy, n_tasks=3, siblings=1)
    assert blamed(pack_demonstrations(played), learner()) == 1


def test_a_logprob_that_is_no_number_is_a_mismatch():
    batch = spoken(models.local())
    batch.logprob_L[np.flatnonzero(batch.ce_weight_L)[-1]] = np.nan
    assert blamed(batch, learner()) == batch.turn_L.max()


def test_the_message_names_token_place_and_both_numbers():
    batch = spoken(models.local())
    place = np.flatnonzero(batch.ce_weight_L)[2]
    batch.logprob_L[place] -= 0.5
    with pytest.raises(MismatchError) as caught:
        check_agreement(batch, learner(), tolerance=TOLERANCE)
    truth = learner().logprobs(replace(batch, policy_weight_L=batch.ce_weight_L))[place]
    turn = batch.turn_L[place]
    assert f"differ at turn {turn}: token {batch.ids_L[place]} at position {batch.position_L[place]} " in str(
        caught.value
    )
    assert f"{batch.logprob_L[place]:.6f} (sampler) and {truth:.6f} (learner)" in str(caught.value)
    assert "largest difference per turn: " in str(caught.value)


def test_a_probe_speaks_to_the_recorded_observations_through_the_cache():
    policy = models.local()
    played = longest(models.play(models.local(), n_tasks=4, siblings=1), 2)
    batch = spoken(policy)
    assert batch.n_segments == 2
    assert [int(batch.turn_L[batch.segment_L == s].max()) + 1 for s in range(2)] == [len(t.turns) for t in played]
    for segment, trajectory in enumerate(played):
        for number, turn in enumerate(trajectory.turns):
            at = (batch.segment_L == segment) & (batch.turn_L == number)
            said = batch.ce_weight_L[at] > 0
            assert 1 <= said.sum() <= PROBE_TOKENS
            text = models.tokenizer().decode(batch.ids_L[at][~said])
            assert f"<|user|>{turn.observation.text}<|end|><|assistant|>" in text
    assert policy._rows == []


def test_another_seed_says_something_else():
    one, same, other = (spoken(models.local(), seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.ids_L, same.ids_L)
    assert one.ids_L.tolist() != other.ids_L.tolist()


def test_an_empty_batch_agrees():
    assert check_agreement(pack_demonstrations([]), learner(), tolerance=TOLERANCE) == {
        "canary/max_logprob_difference": 0.0,
        "canary/mean_logprob_difference": 0.0,
    }


def test_longest_prefers_turns_and_then_names():
    made = [models.trajectory([models.turn([1], [2])] * n, name=name) for name, n in (("c", 1), ("b", 3), ("a", 3))]
    assert [t.id for t in longest(made, 2)] == ["a", "b"]
    assert [t.id for t in longest(made, 9)] == ["a", "b", "c"]


# --- a sampler that cuts its distribution ----------------------------------------------------------------------------


def test_an_honest_pair_that_cuts_agrees_also_after_an_update():
    policy, cut = models.local(), {"top_p": 0.9, "top_k": 20}
    taught = learner(0.7, **cut)
    played = models.play(policy, n_tasks=3, temperature=0.7, **cut)
    batch = pack([models.scored(played[:3])], np.zeros(sum(len(t.turns) for t in played[:3]), np.float32))
    expected = {"canary/borderline_tokens": 0.0}
    assert check_agreement(batch, taught, tolerance=TOLERANCE, truncates=True).items() >= expected.items()
    updated(taught)
    asyncio.run(policy.publish(taught.weights(), 1))
    metrics = check_agreement(spoken(policy, temperature=0.7, **cut), taught, tolerance=TOLERANCE, truncates=True)
    assert 0 <= metrics["canary/max_logprob_difference"] < TOLERANCE
    assert metrics["canary/borderline_tokens"] == 0


@pytest.mark.parametrize("blind", [{}, {"top_p": 0.9}, {"top_p": 0.95, "top_k": 20}, {"top_p": 0.9, "top_k": 19}])
@pytest.mark.parametrize("truncates", [True, False])
def test_a_learner_that_does_not_renormalise_as_the_sampler_does_is_stopped(blind, truncates):
    batch = spoken(models.local(), top_p=0.9, top_k=20)
    with pytest.raises(MismatchError, match="differ at turn 0"):
        check_agreement(batch, learner(**blind), tolerance=TOLERANCE, truncates=truncates)


def test_a_publish_that_was_skipped_shows_through_the_cut():
    policy, cut = models.local(), {"top_p": 0.9, "top_k": 20}
    with pytest.raises(MismatchError, match="differ at turn 0"):
        check_agreement(spoken(policy, **cut), updated(learner(**cut)), tolerance=TOLERANCE, truncates=True)


class Said:
    """A learner whose logprobs are given."""

    def __init__(self, logprobs_L):
        self._logprobs_L = logprobs_L

    def logprobs(self, batch):
        return self._logprobs_L


@pytest.mark.parametrize(
    ("n_tokens", "n_off", "tolerance", "agrees"),
    [
        (60, 1, 1e-4, True),  # 1 + .001 · 60
        (60, 2, 1e-4, False),
        (5_000, 6, 1e-4, True),  # 1 + 5
        (5_000, 7, 1e-4, False),
        (5_000, 51, 0.1, True),  # never more than 1 + 1 %
        (5_000, 52, 0.1, False),
    ],
)
def test_a_few_tokens_on_the_cut_are_counted_and_no_more(n_tokens, n_off, tolerance, agrees):
    turn = models.turn([1], [2] * n_tokens, logprobs=[-1.0] * n_tokens)
    batch = pack_demonstrations([models.trajectory([turn])])
    off_L = batch.logprob_L.copy()
    off_L[1 : 1 + n_off] = -np.inf
    if agrees:
        found = check_agreement(batch, Said(off_L), tolerance=tolerance, truncates=True)
        assert found == {
            "canary/max_logprob_difference": 0.0,
            "canary/mean_logprob_difference": 0.0,
            "canary/borderline_tokens": n_off,
        }
    else:
        with pytest.raises(MismatchError, match="largest difference per turn: inf"):
            check_agreement(batch, Said(off_L), tolerance=tolerance, truncates=True)
    with pytest.raises(MismatchError):
        check_agreement(batch, Said(off_L), tolerance=tolerance)


def test_a_logprob_that_is_no_number_never_stands_on_the_cut():
    batch = spoken(models.local(), top_k=20)
    batch.logprob_L[np.flatnonzero(batch.ce_weight_L)[-1]] = np.nan
    with pytest.raises(MismatchError):
        check_agreement(batch, learner(top_k=20), tolerance=TOLERANCE, truncates=True)


# --- in bfloat16 ------------------------------------------------------------------------------------------------------

WIDE = TOLERANCES["bfloat16"]


@cache
def sure(seed):
    """Six layers, sure enough of their tokens that bfloat16 moves log-probabilities by a third of a nat."""
    made = tiny.random_model(models.tokenizer(), layers=6, width=64, heads=2, context=256, seed=seed)
    with torch.no_grad():
        made.base_model.norm.weight *= 4
    return made


def rounded(seed=0):
    """The sampler of such a model, as a GPU has it."""
    model = copy.deepcopy(sure(seed))
    cast(model, torch.bfloat16)
    return models.local(model)


@cache
def taught_in_bfloat16():
    """A learner in bfloat16 and a probe of its sampler: before an update, of a sampler that it did not reach, and of
    one that it did; and a probe of another model's."""
    policy, taught = rounded(), models.learner(copy.deepcopy(sure(0)), lr=1e-4, dtype="bfloat16")
    before = measured(spoken(policy), taught)
    taught.forward_backward(pack_demonstrations(models.play(policy, n_tasks=2)), PolicyLoss())
    taught.optim_step()
    skipped = measured(spoken(policy), taught)
    asyncio.run(policy.publish(taught.weights(), 1))
    return {
        "the same": before,
        "a push that was skipped": skipped,
        "a push": measured(spoken(policy), taught),
        "another model": measured(spoken(rounded(1)), taught),
    }


def measured(batch, taught):
    return batch, taught.logprobs(replace(batch, policy_weight_L=batch.ce_weight_L))


@pytest.mark.parametrize("case", ["the same", "a push"])
def test_in_bfloat16_rounding_is_allowed_that_float32_would_not_have(case):
    batch, said_L = taught_in_bfloat16()[case]
    found = check_agreement(batch, Said(said_L), tolerance=WIDE)
    assert 100 * TOLERANCES["float32"] < found["canary/max_logprob_difference"] < WIDE
    assert 0 < found["canary/mean_logprob_difference"] < mean_limit(WIDE)
    with pytest.raises(MismatchError):
        check_agreement(batch, Said(said_L), tolerance=TOLERANCES["float32"])


@pytest.mark.parametrize("case", ["a push that was skipped", "another model"])
def test_in_bfloat16_other_weights_are_found_out(case):
    batch, said_L = taught_in_bfloat16()[case]
    with pytest.raises(MismatchError, match=r"nats \(tolerance 1\), the mean of all others .* \(at most 0\.1\)"):
        check_agreement(batch, Said(said_L), tolerance=WIDE)


@pytest.mark.parametrize(
    ("apart", "tolerance", "turn"),
    [
        ([[0.9] + [0.05] * 5, [0.05] * 6], 1.0, None),  # an outlier among a dozen
        ([[0.2] * 6, [0.2] * 6], 1.0, 0),  # every token is off
        ([[0.5] + [0.0] * 5, [0.4] * 6], 1.0, 1),  # the turn that is off, not the one with an outlier
        ([[0.0] * 6, [1.1] + [0.0] * 5], 1.0, 1),
        ([[0.2] * 6, [0.2] * 6], 3.0, None),  # a tenth of a tolerance above 1
        ([[0.4] * 6, [0.4] * 6], 3.0, 0),
        ([[0.05] * 6, [0.05] * 6], 0.06, None),
        ([[1e-4] * 6, [1e-4] * 6], 2e-4, None),  # a small tolerance is its own mean
        ([[0.9]], 1.0, None),
    ],
)
def test_the_mean_is_limited_without_the_token_that_differs_most(apart, tolerance, turn):
    turns = [models.turn([1], [2] * len(one), logprobs=[-1.0] * len(one)) for one in apart]
    batch = pack_demonstrations([models.trajectory(turns)])
    said_L = batch.logprob_L.copy()
    said_L[batch.ce_weight_L > 0] -= np.concatenate(apart).astype(np.float32)
    if turn is None:
        found = check_agreement(batch, Said(said_L), tolerance=tolerance)
        assert found["canary/mean_logprob_difference"] == pytest.approx(np.concatenate(apart).mean(), rel=1e-3)
    else:
        with pytest.raises(MismatchError, match=f"differ at turn {turn}: "):
            check_agreement(batch, Said(said_L), tolerance=tolerance)
