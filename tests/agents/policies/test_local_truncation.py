"""The engine samples from the cut distribution and reports its logprobs.

1. No token outside the cut is ever drawn, whatever the uniform; frequencies are those of the renormalised distribution.
2. Recorded logprobs are those of the cut distribution, each request with its own cut.
3. The cut needs a temperature; with the likeliest token it would have no effect.
"""

import numpy as np
import pytest
import torch

from tests.helpers import models
from tests.helpers.rounding import PASS, assert_logprobs
from turngate.agents.policies.sampling import Draws
from turngate.agents.policies.truncation import truncated_log_softmax
from turngate.types import PLAIN, Sampling

LOGITS = torch.tensor(np.log([0.3, 0.05, 0.5, 0.15]), dtype=torch.float32)


def job(uniform, *, temperature=1.0, top_p=1.0, top_k=0):
    return Sampling(temperature=temperature, top_p=top_p, top_k=top_k), uniform


def draw(jobs, logits=LOGITS):
    samplings, uniforms = zip(*jobs, strict=True)
    return Draws.of(samplings, uniforms, torch.device("cpu")).tokens(logits.repeat(len(jobs), 1))


def test_every_uniform_meets_its_part_of_the_cut_distribution():
    """Kept by top_p = .7: tokens 0 and 2 with 3/8 and 5/8; token 3, the last of the vocabulary, has no part."""
    uniforms = [0.0, 0.374, 0.376, 0.5, 0.999, 1 - 2**-53]
    tokens, logprobs = draw([job(uniform, top_p=0.7) for uniform in uniforms])
    assert tokens == [0, 0, 2, 2, 2, 2]
    np.testing.assert_allclose(np.exp(logprobs), [0.375, 0.375, 0.625, 0.625, 0.625, 0.625], atol=1e-6)


@pytest.mark.parametrize("cut", [{"top_p": 0.7}, {"top_k": 2}, {"top_p": 0.3}, {"top_p": 0.9, "top_k": 3}, {}], ids=str)
def test_the_largest_uniform_meets_a_kept_token_even_where_rounding_reaches_the_total(cut):
    """1.0 stands for a product uniform · total that was rounded up to the total."""
    ((token,), (logprob,)) = draw([job(1.0, **cut)])
    expected = truncated_log_softmax(LOGITS, 1.0, **cut)
    assert token == int(np.flatnonzero(expected.isfinite().numpy())[-1])
    assert logprob == pytest.approx(float(expected[token]), abs=1e-6)


def test_requests_in_flight_together_keep_their_own_cut():
    kinds = [{}, {"top_p": 0.7}, {"top_k": 3}, {"temperature": 0.0}, {"top_p": 0.7, "temperature": 0.5}, {"top_k": 2}]
    together = draw([job(0.7, **kind) for kind in kinds])
    alone = [draw([job(0.7, **kind)]) for kind in kinds]
    assert together[0] == [tokens[0] for tokens, _ in alone]
    np.testing.assert_allclose(together[1], [logprobs[0] for _, logprobs in alone], atol=1e-6)
    np.testing.assert_allclose(np.exp(together[1][1]), 0.625, atol=1e-6)
    np.testing.assert_allclose(np.exp(together[1][4]), 0.25 / 0.34, atol=1e-6)  # squares: .25 of .365 is below .7
    np.testing.assert_allclose(np.exp(together[1][0]), 0.5, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_recorded_logprobs_are_those_of_the_cut_distribution_in_every_turn(temperature):
    source = models.model()
    played = models.play(models.local(source), n_tasks=2, temperature=temperature, top_p=0.9, top_k=20)
    assert max(len(trajectory.turns) for trajectory in played) > 1
    for trajectory in played:
        ids = torch.as_tensor(trajectory.ids(), dtype=torch.long)
        with torch.no_grad():
            logits = source(ids[None]).logits[0, :-1]
        row = truncated_log_softmax(logits, temperature, 0.9, 20)
        naive = np.concatenate([[0.0], row.gather(1, ids[1:, None])[:, 0].numpy()])
        place = 0
        for turn in trajectory.turns:
            start = place + len(turn.context_ids)
            place = start + len(turn.completion.ids_K)
            assert_logprobs(turn.completion.logprobs_K, naive[start:place], PASS)


def test_without_a_cut_nothing_changes():
    plain = models.play(models.local(), n_tasks=2)
    spelled_out = models.play(models.local(), n_tasks=2, top_p=1.0, top_k=0)
    assert plain == spelled_out


def test_a_cut_changes_what_is_sampled():
    assert models.play(models.local(), n_tasks=2) != models.play(models.local(), n_tasks=2, top_k=2)


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 20}])
def test_greedy_with_a_cut_is_refused(cut):
    with pytest.raises(ValueError, match=r"temperature 0 takes the likeliest token, so top_p=.* have no effect"):
        job(0.5, temperature=0.0, **cut)


def test_the_greedy_player_of_one_that_cuts_cuts_nothing():
    cutting = models.player(models.local(), top_p=0.9, top_k=20)
    assert cutting.sampling.truncates
    greedy = cutting.greedy()
    assert greedy.sampling == Sampling(temperature=0.0, top_p=1.0, top_k=0)
    assert not greedy.sampling.truncates
    assert (greedy.policy, greedy.chat, greedy.limits) == (cutting.policy, cutting.chat, cutting.limits)


def test_sampling_without_a_cut_says_so():
    assert not PLAIN.truncates
    assert Sampling(top_k=2).truncates
    assert Sampling(top_p=0.99).truncates
    assert Sampling(temperature=0.7, top_p=0.99, top_k=3).whole == Sampling(temperature=0.7)
