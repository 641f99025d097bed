"""Weighted criteria."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.criteria import criteria_score


@pytest.mark.parametrize(
    ("weights", "verdicts", "expected"),
    [([3, 2, 1], [1, 0, 1], 0.666667), ([3, 2, -2], [1, 1, 1], 0.6), ([1, -5], [1, 1], 0.0), ([2], [0.25], 0.25)],
)
def test_known_scores(weights, verdicts, expected):
    assert criteria_score(verdicts, weights) == pytest.approx(expected, abs=1e-5)


def test_an_unread_verdict_leaves_the_score_open():
    assert criteria_score([1, None], [1, -1]) is None


def test_what_cannot_be():
    with pytest.raises(ConfigError, match="hold a positive one"):
        criteria_score([1], [-1])
    with pytest.raises(ConfigError, match="must be finite"):
        criteria_score([1], [float("inf")])
    with pytest.raises(ShapeError, match="1 verdicts but 2 weights"):
        criteria_score([1], [1, 1])
    with pytest.raises(ShapeError, match="verdict 2"):
        criteria_score([2], [1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-3, 3)), min_size=1, max_size=6), st.randoms(use_true_random=False)
)
def test_it_is_bounded_free_of_order_and_pitfalls_never_pay(rows, random):
    rows = [*rows, (0.5, 1.0)]
    score = criteria_score(*zip(*rows, strict=True))
    assert 0 <= score <= 1
    assert criteria_score(*zip(*[*rows, (1.0, -1.0)], strict=True)) <= score
    random.shuffle(rows)
    assert criteria_score(*zip(*rows, strict=True)) == pytest.approx(score, abs=1e-9)
