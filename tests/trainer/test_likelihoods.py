"""Likelihoods of given texts by a learner's weights."""

import numpy as np
import pytest

from tests.helpers import models
from tests.helpers.rounding import PASS, assert_logprobs
from turngate.errors import ShapeError
from turngate.trainer.signals.likelihoods import likelihoods_of


def ends(ids, n):
    return np.arange(len(ids)) >= len(ids) - n


def test_each_text_against_a_plain_forward_pass():
    """Texts of many lengths in small passes, at the sampler's temperature, without the sampler's cut."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(280, size=size).astype(np.int32) for size in (9, 3, 1, 14, 5, 9)]
    asked = [ends(one, n) for one, n in zip(ids, (3, 2, 0, 13, 0, 1), strict=True)]
    asked[3][5] = False  # what is asked for need not be the end
    learner = models.learner(models.model(), lr=1e-3, temperature=0.7, top_k=3, tokens_per_pass=16)
    before = {name: value.clone() for name, value in learner.weights().items()}
    found = likelihoods_of(learner)(ids, asked)
    assert [len(one) for one in found] == [3, 2, 0, 12, 0, 1]
    for one, marks, logprobs in zip(ids, asked, found, strict=True):
        expected = models.naive_logprobs(models.model(), one, 0.7)[marks]
        assert_logprobs(logprobs, expected, PASS)
        assert logprobs.dtype == np.float32
    assert all((before[name] == value).all() for name, value in learner.weights().items())
    assert all(parameter.grad is None for parameter in learner.model.parameters())


def test_nothing_is_asked():
    likelihoods = likelihoods_of(None)  # no learner is needed for that
    assert likelihoods([], []) == []
    assert [one.tolist() for one in likelihoods([np.array([1, 2], np.int32)], [np.zeros(2, bool)])] == [[]]


def test_what_nobody_can_measure():
    likelihoods = likelihoods_of(models.learner(models.model(), lr=1e-3))
    with pytest.raises(ShapeError, match="nothing predicts it"):
        likelihoods([np.array([1, 2], np.int32)], [np.array([True, False])])
    with pytest.raises(ShapeError, match=r"\(2,\) and marks of shape \(3,\)"):
        likelihoods([np.array([1, 2], np.int32)], [np.zeros(3, bool)])
    with pytest.raises(ValueError, match="shorter"):
        likelihoods([np.array([1, 2], np.int32)], [])
