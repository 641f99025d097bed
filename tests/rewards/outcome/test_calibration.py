"""Stated confidence: proper, bounded, and silence does not pay."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome import (
    answer_or_abstain,
    answer_threshold,
    brier,
    log_score,
    rlcr,
    rlcr_released,
    spherical_score,
)

chances = st.floats(0.01, 0.99)


def expected(score, p, confidence):
    return p * score(True, confidence) + (1 - p) * score(False, confidence)


@pytest.mark.parametrize(
    ("correct", "confidence", "value"), [(True, 0.8, 0.96), (False, 0.8, -0.64), (False, 0.0, 0.0)]
)
def test_the_published_rlcr(correct, confidence, value):
    assert rlcr(correct, confidence) == rlcr(correct, confidence, faithful=True) == pytest.approx(value, abs=1e-5)


def test_the_released_mixture():
    assert rlcr_released(True, 0.8) == pytest.approx(0.5 + 0.5 + 0.5 * 0.96, abs=1e-5)
    assert rlcr_released(False, 0.8, well_formed=False) == pytest.approx(0.5 * 0.36, abs=1e-5)
    assert rlcr_released(True, None) == 0.0
    assert rlcr_released(False, 0.0) == rlcr_released(True, 0.0) == 1.0


def test_staying_silent_about_a_wrong_answer_pays_only_as_published():
    assert rlcr(False, None, faithful=True) > rlcr(False, 0.8, faithful=True)
    assert rlcr(False, None) == -1.0 < rlcr(False, 0.8)
    assert rlcr(True, None) == 0.0 < rlcr(True, 0.1)


@pytest.mark.parametrize("score", [brier, log_score, spherical_score])
def test_scores_of_known_cases(score):
    values = {brier: (0.96, 0.36), log_score: (-0.223144, -1.609438), spherical_score: (0.970143, 0.242536)}[score]
    assert score(True, 0.8) == pytest.approx(values[0], abs=1e-5)
    assert score(False, 0.8) == pytest.approx(values[1], abs=1e-5)
    assert score(None, 0.8) is score(True, None) is None


@pytest.mark.parametrize("score", [brier, log_score, spherical_score, rlcr])
@settings(max_examples=60, deadline=None)
@given(p=chances, lie=chances)
def test_honesty_is_best(score, p, lie):
    assert expected(score, p, p) >= expected(score, p, lie) - 1e-9
    if abs(p - lie) > 0.05:
        assert expected(score, p, p) > expected(score, p, lie)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_rlcr_is_bounded_and_a_right_answer_is_never_below_a_wrong_one(a, b):
    assert -1 <= rlcr(False, b) <= 0 <= rlcr(True, a) <= 1
    assert rlcr(True, None) <= rlcr(True, a)
    assert rlcr(False, None) <= rlcr(False, b)


def test_the_log_score_has_a_floor():
    assert log_score(False, 1.0) == log_score(False, 0.9999) == pytest.approx(math.log(1e-3))
    with pytest.raises(ConfigError, match="floor=0"):
        log_score(True, 0.5, floor=0.0)


@pytest.mark.parametrize("score", [brier, log_score, spherical_score, rlcr, rlcr_released])
@pytest.mark.parametrize("confidence", [-0.1, 1.1, math.nan])
def test_confidences_that_cannot_be(score, confidence):
    with pytest.raises(ShapeError, match="confidence is"):
        score(True, confidence)


@pytest.mark.parametrize("score", [rlcr, rlcr_released])
def test_an_unmeasured_answer_has_no_score(score):
    assert score(None, 0.5) is score(None, None) is None


def test_abstaining():
    assert answer_or_abstain(True, abstained=False, threshold=0.75) == 1.0
    assert answer_or_abstain(False, abstained=False, threshold=0.75) == pytest.approx(-3.0, abs=1e-5)
    assert answer_or_abstain(None, abstained=True, threshold=0.75) == 0.0
    assert answer_or_abstain(None, abstained=False, threshold=0.75) is None
    assert answer_or_abstain(False, abstained=False, threshold=0.0) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 0.99), st.floats(0, 1))
def test_answering_pays_from_the_threshold_on(threshold, p):
    right, wrong = (answer_or_abstain(c, abstained=False, threshold=threshold) for c in (True, False))
    value = p * right + (1 - p) * wrong
    assert (value > 0) == (p > threshold) or math.isclose(value, 0, abs_tol=1e-9)
    assert answer_threshold(correct=right, wrong=wrong, abstained=0.0) == pytest.approx(threshold)


def test_thresholds_that_cannot_be():
    assert answer_threshold() == pytest.approx(0.3)
    with pytest.raises(ConfigError, match="wrong ≤ abstained < correct"):
        answer_threshold(abstained=1.0)
    with pytest.raises(ConfigError, match=r"threshold=1\.0"):
        answer_or_abstain(True, abstained=False, threshold=1.0)
