"""CAPO's votes on steps."""

import math

import pytest

from tests.helpers.numbers import near_or_missing as near
from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts.votes import capo_votes

NAN = math.nan


def test_capo_votes_worked_numbers():
    bad = [[0, 0, 1], [1, 1, 1], [0, 1, 0]]  # turns × critiques {2}, {2, 3}, {1, 2}
    assert capo_votes(bad).tolist() == [0, 1, 0]
    assert capo_votes(bad, mode="intersection").tolist() == [0, 1, 0]
    assert capo_votes(bad, mode="average").tolist() == near([1 / 3, 1, 1 / 3])


def test_capo_invalid_critiques_have_no_vote():
    bad = [[NAN, 1, NAN], [NAN, 1, 0], [NAN, NAN, NAN]]
    assert capo_votes(bad).tolist() == near([1, 0, NAN])  # a tie is no majority
    assert capo_votes(bad, mode="intersection").tolist() == near([1, 0, NAN])
    assert capo_votes(bad, mode="average").tolist() == near([1, 0.5, NAN])


def test_bad_input_raises():
    with pytest.raises(ShapeError, match=r"bad_NC\[\(0, 0\)\] is 0.5"):
        capo_votes([[0.5]])
    with pytest.raises(ShapeError, match="turns × critiques"):
        capo_votes([0.0])
    with pytest.raises(ConfigError, match="'any'"):
        capo_votes([[0]], mode="any")
