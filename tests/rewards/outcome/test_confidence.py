"""Rewards from probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.rewards.outcome.confidence import (
    answer_confidence,
    log_probability,
    mean_log_probability,
    mean_probability,
    perplexity,
    product_probability,
)

logprobs = st.lists(st.floats(-20, 0), min_size=1, max_size=6)


def test_probabilities_of_an_answer():
    assert mean_probability(np.log([0.9, 0.7])) == pytest.approx(0.8, abs=1e-6)
    assert product_probability(np.log([0.9, 0.8])) == pytest.approx(0.72, abs=1e-6)
    assert log_probability(np.log([0.9, 0.8])) == pytest.approx(-0.328504, abs=1e-6)
    assert mean_log_probability(np.log([0.9, 0.8])) == pytest.approx(-0.164252, abs=1e-6)
    assert perplexity(np.log([0.9, 0.8])) == pytest.approx(1.178511, abs=1e-6)
    assert perplexity(np.log([0.6, 0.6])) == pytest.approx(1.666667, abs=1e-6)


def test_the_product_dies_with_the_length_of_the_answer():
    assert product_probability(np.log([0.9] * 40)) == pytest.approx(0.014781, abs=1e-6)
    assert mean_probability(np.log([0.9] * 40)) == pytest.approx(0.9, abs=1e-6)


def test_a_text_without_tokens_has_no_likelihood():
    for reduce in (mean_probability, product_probability, log_probability, mean_log_probability, perplexity):
        assert reduce([]) is None


def test_the_confidence_of_sampled_answers():
    assert answer_confidence([np.log([0.5, 0.5]), np.log([0.9, 0.4])]) == pytest.approx((0.5 + 0.6) / 2)
    assert answer_confidence([[], np.log([0.5])]) == pytest.approx(0.5)
    assert answer_confidence([[0.0]]) == 1.0
    assert answer_confidence([]) is answer_confidence([[]]) is None


def test_surprisals_stand_in_for_entropies_on_average():
    """Many long answers from one distribution: the confidence nears exp(−H); of single tokens it is above that."""
    rng, p = np.random.default_rng(0), np.array([0.6, 0.3, 0.1])
    said = np.log(p[rng.choice(3, size=(400, 200), p=p)])
    right = math.exp(p @ np.log(p))
    assert answer_confidence(list(said)) == pytest.approx(right, rel=0.01)
    assert answer_confidence([one[:1] for one in said]) == pytest.approx(p @ p, rel=0.1)
    assert p @ p > right


@settings(max_examples=60, deadline=None)
@given(logprobs)
def test_bounds(reference):
    assert 0 <= product_probability(reference) <= mean_probability(reference) + 1e-12 <= 1 + 1e-9
    assert perplexity(reference) >= 1 - 1e-12
    assert 1 / perplexity(reference) == pytest.approx(answer_confidence([reference]))


@settings(max_examples=60, deadline=None)
@given(logprobs, st.integers(2, 4))
def test_only_sums_fall_with_the_length_of_the_reference(reference, times):
    for reduce in (mean_probability, mean_log_probability, perplexity):
        assert reduce(reference * times) == pytest.approx(reduce(reference))
    assert product_probability(reference * times) <= product_probability(reference)
    assert log_probability(reference * times) == pytest.approx(times * log_probability(reference))


@pytest.mark.parametrize("bad", [[0.1], [math.nan], [[-1.0]]])
def test_what_is_no_log_probability_is_refused(bad):
    with pytest.raises(ShapeError, match="must be flat and at most 0"):
        mean_probability(bad)
