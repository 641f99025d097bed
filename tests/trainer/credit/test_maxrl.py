"""MaxRL: centred, divided by the mean."""

from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.maxrl import maxrl


def test_one_success_in_four(table_of: Any):
    np.testing.assert_allclose(maxrl(table_of([[1], [0], [0], [0]]), eps=0.0), [3, -1, -1, -1], atol=1e-6)


def test_nothing_to_learn_from_no_success(table_of: Any):
    assert maxrl(table_of([[0]] * 4)).tolist() == [0] * 4
    assert maxrl(table_of([[0]] * 4), eps=0.0).tolist() == [0] * 4


def test_a_lone_trajectory_does_not_blow_up(table_of: Any):
    """Public code divides it by eps: a million."""
    assert maxrl(table_of([[1], [0], [1]], [0, 1, 1])).tolist()[0] == 0


def test_a_cap_bounds_the_rare_success(table_of: Any):
    np.testing.assert_allclose(maxrl(table_of([[1]] + [[0]] * 7), cap=2.0, eps=0.0), [2] + [-1] * 7, atol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=1, max_size=10))
@settings(max_examples=40)
def test_against_plain_loops(table_of: Any, rows: list[tuple[int, int]]):
    expected = []
    for cohort, reward in rows:
        mean = fmean(r for c, r in rows if c == cohort)
        expected.append((reward - mean) / (mean + 1e-6))
    table = table_of([[reward] for _, reward in rows], [cohort for cohort, _ in rows])
    np.testing.assert_allclose(maxrl(table), expected, atol=1e-4)


def test_a_negative_total_is_refused(table_of: Any):
    with pytest.raises(ShapeError, match="trajectory 1 was paid -1"):
        maxrl(table_of([[1], [-1]]))


@pytest.mark.parametrize("bad", [{"cap": 0.0}, {"cap": float("nan")}, {"eps": -1.0}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="maxrl"):
        maxrl(table_of([[0], [1]]), **bad)
