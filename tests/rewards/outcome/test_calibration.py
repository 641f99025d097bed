"""Stated confidence: proper, bounded, and silence does not pay."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.calibration import answer_or_abstain, brier, confidence_in, rlcr

chances = st.floats(0.01, 0.99)


def expected(score, p, confidence):
    return p * score(True, confidence) + (1 - p) * score(False, confidence)


@pytest.mark.parametrize(
    ("correct", "confidence", "value"), [(True, 0.8, 0.96), (False, 0.8, -0.64), (False, 0.0, 0.0)]
)
def test_the_published_rlcr(correct, confidence, value):
    assert rlcr(correct, confidence) == rlcr(correct, confidence, faithful=True) == pytest.approx(value, abs=1e-5)


def test_staying_silent_about_a_wrong_answer_pays_only_as_published():
    assert rlcr(False, None, faithful=True) > rlcr(False, 0.8, faithful=True)
    assert rlcr(False, None) == -1.0 < rlcr(False, 0.8)
    assert rlcr(True, None) == 0.0 < rlcr(True, 0.1)


def test_brier_scores_of_known_cases():
    assert brier(True, 0.8) == pytest.approx(0.96, abs=1e-5)
    assert brier(False, 0.8) == pytest.approx(0.36, abs=1e-5)
    assert brier(None, 0.8) is brier(True, None) is None


@pytest.mark.parametrize("score", [brier, rlcr])
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


@pytest.mark.parametrize("score", [brier, rlcr])
@pytest.mark.parametrize("confidence", [-0.1, 1.1, math.nan])
def test_confidences_that_cannot_be(score, confidence):
    with pytest.raises(ShapeError, match="confidence is"):
        score(True, confidence)


def test_an_unmeasured_answer_has_no_score():
    assert rlcr(None, 0.5) is rlcr(None, None) is None


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


def test_thresholds_that_cannot_be():
    with pytest.raises(ConfigError, match=r"threshold=1\.0"):
        answer_or_abstain(True, abstained=False, threshold=1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("answer Oslo", False),
        ("<confidence>0.8</confidence> answer Oslo", 0.8),
        ("<confidence> 80 % </confidence>", 0.8),
        ("<confidence>0.1</confidence> no: <confidence>1</confidence>", 1.0),
        ("<confidence>7</confidence>", False),
        ("<confidence>high</confidence>", False),
        ("<confidence>-0.2</confidence>", False),
        ("", False),
    ],
)
def test_the_stated_confidence_is_the_last_that_can_be_read(text, expected):
    assert confidence_in(text) == expected
    assert (confidence_in(text) is False) == (expected is False)
