"""What several answers say together: pairs in both orders, votes, panels."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judges.texts.pairs import scores
from turngate.errors import ConfigError
from turngate.judges.texts import (
    Fault,
    FaultKind,
    PairScores,
    PairVerdict,
    Rule,
    Verdict,
    majority,
    settle_orders,
    unanimous,
)


def test_orders_that_agree_add_up_and_orders_that_disagree_are_a_tie():
    agreed = settle_orders(scores(8, 2), scores(3, 6))
    assert (agreed.first, agreed.second, agreed.share, agreed.consistent) == (14, 5, 1.0, True)
    flipped = settle_orders(scores(9, 1), scores(6, 5))  # whoever stands first wins
    assert (flipped.first, flipped.second, flipped.share, flipped.consistent) == (10.5, 10.5, 0.5, False)
    half = settle_orders(scores(9, 1), scores(5, 5))  # a tie and a win disagree, too
    assert (half.share, half.consistent) == (0.5, False)
    published = settle_orders(scores(9, 1), scores(6, 5), faithful=True)
    assert (published.first, published.second, published.share, published.consistent) == (14, 7, 1.0, False)


POINTS = st.integers(0, 10)


@given(POINTS, POINTS, POINTS, POINTS, st.booleans())
@settings(max_examples=60)
def test_swapping_the_two_mirrors_the_result(a, b, c, d, faithful):
    one = settle_orders(scores(a, b), scores(c, d), faithful=faithful)
    other = settle_orders(scores(c, d), scores(a, b), faithful=faithful)
    assert (one.first, one.second, one.consistent) == (other.second, other.first, other.consistent)
    assert one.share == 1 - other.share
    if not faithful:
        shares = {_share(a, b), 1 - _share(c, d)}
        assert one.share == (shares.pop() if len(shares) == 1 else 0.5)


def _share(first, second):
    return 1.0 if first > second else 0.0 if first < second else 0.5


PASSED, FAILED = Verdict(passed=True, score=0.8), Verdict(passed=False, score=0.2)
LOST = Fault(kind=FaultKind.TIMEOUT)


def test_majorities_leave_out_what_failed():
    assert majority([PASSED]) == PASSED
    assert majority([LOST, PASSED]) == PASSED
    two = majority([PASSED, FAILED, FAILED])
    assert (two.passed, two.score) == (False, pytest.approx(0.4))
    assert majority([PASSED, FAILED]).kind is FaultKind.INVALID
    assert majority([LOST, LOST]) == LOST
    with pytest.raises(ConfigError, match="at least one"):
        majority([])
    with pytest.raises(ConfigError, match="pointwise"):
        majority([scores(1, 2)])


def test_a_panel_opens_a_gate_only_together():
    assert unanimous([PASSED, PASSED]) is True
    assert unanimous([PASSED, FAILED]) is False
    assert unanimous([PASSED, LOST]) is None
    assert unanimous([FAILED, LOST]) is False
    assert unanimous([Rule.NO_ANSWER, LOST]) is False
    with pytest.raises(ConfigError, match="at least one"):
        unanimous([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "say",
    [
        lambda bad: Verdict(passed=True, score=bad),
        lambda bad: PairScores(first=bad, second=1.0),
        lambda bad: PairVerdict(first=1.0, second=bad, consistent=True),
    ],
)
def test_what_is_no_number_is_no_verdict(say, bad):
    with pytest.raises(ValueError, match=str(bad)):
        say(bad)
