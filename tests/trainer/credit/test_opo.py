"""OPO: long trajectories rule the baseline."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.opo import opo

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 4), st.integers(1, 9)), min_size=1, max_size=10)


def test_a_failure_three_times_as_long_pulls_the_baseline_to_a_quarter(table_of: Any):
    assert opo(table_of([[1], [0]], tokens_N=[10, 30])).tolist() == [0.75, -0.25]


def test_the_length_is_the_sum_over_the_turns(table_of: Any):
    table = table_of([[0, 1], [0, 0, 0]], tokens_N=[5, 5, 10, 10, 10])
    assert opo(table).tolist() == [0.75, 0.75, -0.25, -0.25, -0.25]


@given(ROWS)
@settings(max_examples=40)
def test_against_plain_loops(table_of: Any, rows: list[tuple[int, int, int]]):
    expected = []
    for cohort, reward, _ in rows:
        group = [(r, length) for c, r, length in rows if c == cohort]
        expected.append(reward - sum(r * length for r, length in group) / sum(length for _, length in group))
    table = table_of([[r] for _, r, _ in rows], [c for c, _, _ in rows], tokens_N=[length for *_, length in rows])
    np.testing.assert_allclose(opo(table), expected, atol=1e-5)


def test_no_tokens_at_all_leave_the_plain_mean(table_of: Any):
    table = table_of([[1], [0], [0]], tokens_N=[0, 0, 0])
    np.testing.assert_array_equal(opo(table), dr_grpo(table))


def test_negative_lengths_are_refused(table_of: Any):
    with pytest.raises(ShapeError, match="tokens_N holds -1"):
        opo(table_of([[1], [0]], tokens_N=[3, -1]))
