"""Rewards from probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome import last_token_score, mean_probability, product_probability, rlpr, self_certainty

logprobs = st.lists(st.floats(-20, 0), min_size=1, max_size=6)


def test_probabilities_of_an_answer():
    assert mean_probability(np.log([0.9, 0.7])) == pytest.approx(0.8, abs=1e-5)
    assert product_probability(np.log([0.9, 0.7])) == pytest.approx(0.63, abs=1e-5)
    assert mean_probability([]) is product_probability([]) is None


def test_rlpr():
    assert rlpr(np.log([0.9, 0.8]), np.log([0.6])) == pytest.approx(0.325, abs=1e-5)
    assert rlpr(np.log([0.4]), np.log([0.6])) == pytest.approx(0.1, abs=1e-5)
    assert rlpr(np.log([0.4]), np.log([0.6]), well_formed=False) == 0.0
    assert rlpr([], [0.0]) is rlpr([0.0], []) is None
    with pytest.raises(ConfigError, match="format_weight=2"):
        rlpr([0.0], [0.0], format_weight=2)


def test_the_last_token_score():
    assert last_token_score(-14.0) == pytest.approx(0.9, abs=1e-5)
    assert (last_token_score(-14.0) - 1) ** 2 == pytest.approx(0.01, abs=1e-5)
    assert last_token_score(None) is None


def test_self_certainty():
    assert self_certainty(np.log([[0.7, 0.1, 0.1, 0.1]])) == pytest.approx(0.429813, abs=1e-5)
    assert self_certainty(np.log([[0.25] * 4])) == pytest.approx(0.0, abs=1e-12)
    assert self_certainty(np.zeros((0, 4))) is None


@settings(max_examples=60, deadline=None)
@given(logprobs, logprobs)
def test_bounds(reference, baseline):
    assert 0 <= product_probability(reference) <= mean_probability(reference) + 1e-12 <= 1 + 1e-9
    assert 0 <= rlpr(reference, baseline) <= 1
    distribution = np.array(reference) - np.log(np.exp(reference).sum())
    assert self_certainty([distribution]) >= -1e-9


@settings(max_examples=60, deadline=None)
@given(logprobs, st.integers(2, 4))
def test_only_the_product_falls_with_the_length_of_the_reference(reference, times):
    assert mean_probability(reference * times) == pytest.approx(mean_probability(reference))
    assert product_probability(reference * times) <= product_probability(reference)


@pytest.mark.parametrize("bad", [[0.1], [math.nan], [[-1.0]]])
def test_what_is_no_log_probability_is_refused(bad):
    with pytest.raises(ShapeError, match="must be flat and at most 0"):
        mean_probability(bad)


def test_a_distribution_with_impossible_tokens_is_refused():
    with pytest.raises(ShapeError, match="finite matrix"):
        self_certainty([[0.0, -math.inf]])
