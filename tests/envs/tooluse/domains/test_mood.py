"""RLVER's emotion score."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.envs.tooluse.generated.domains.mood import BEGIN, emotion_after, mood, walks_away


def test_the_worked_example():
    emotions = list(accumulate([10, 20, -15, 40, 20], emotion_after, initial=BEGIN))
    assert emotions == [30, 40, 60, 45, 85, 100]
    assert [mood(one) for one in emotions] == ["C", "B", "B", "B", "A", "S"]
    assert [walks_away(one) for one in emotions] == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("emotion", "grade"), [(0, "F"), (9, "F"), (10, "C"), (39, "C"), (40, "B"), (70, "A"), (99, "A")]
)
def test_the_bounds_of_the_grades(emotion, grade):
    assert mood(emotion) == grade


@given(st.lists(st.integers(-300, 300)))
def test_an_emotion_stays_between_0_and_100(changes):
    assert all(0 <= one <= 100 for one in accumulate(changes, emotion_after, initial=BEGIN))
