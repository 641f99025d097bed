"""R3L's amplification and pivot mask against their worked numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.r3l import after_pivot, r3l

NO_BRANCH = {"parent_B": [-1] * 4, "branch_B": [0] * 4}


@pytest.mark.parametrize(
    ("totals", "expected"),
    [([1, 0, 0.4, 0.2], [1.0, -0.4, 0.0, -0.2]), ([0.5, 0, 0.1, 0.2], [0.9, -0.2, -0.1, 0.0])],
)
def test_the_worked_amplification(table_of: Any, totals: list[float], expected: list[float]):
    advantage_N = r3l(table_of([[total] for total in totals], **NO_BRANCH))
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N, expected, atol=1e-5)


def test_the_worked_mask(table_of: Any):
    """Five turns, retried from turn 2: in both trajectories turns 0 and 1 are left out."""
    table = table_of([[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]], parent_B=[-1, 0], branch_B=[0, 2])
    assert after_pivot(table).tolist() == [False, False, True, True, True] * 2
    assert r3l(table).tolist() == [0, 0, -0.5, -0.5, -0.5, 0, 0, 1, 1, 1]


def test_a_retry_from_the_start_masks_nothing(table_of: Any):
    table = table_of([[0, 0], [0, 1]], parent_B=[-1, 0], branch_B=[0, 0])
    assert after_pivot(table).all()


def test_several_retries_count_from_the_first_pivot(table_of: Any):
    table = table_of([[0] * 4, [0] * 4, [0] * 4], parent_B=[-1, 0, 0], branch_B=[0, 3, 1])
    assert after_pivot(table).tolist() == [False, True, True, True, False, False, False, True, False, True, True, True]


def test_a_retry_of_a_retry_is_masked_as_both(table_of: Any):
    table = table_of([[0] * 4, [0] * 4, [0] * 4], parent_B=[-1, 0, 1], branch_B=[0, 1, 3])
    assert after_pivot(table).reshape(3, 4).sum(axis=1).tolist() == [3, 1, 1]


def test_a_guided_retry_in_another_cohort_masks_only_itself(table_of: Any):
    table = table_of([[0, 0], [0, 1]], cohorts=[0, 1], parent_B=[-1, 0], branch_B=[0, 1])
    assert after_pivot(table).tolist() == [True, True, False, True]


def test_all_successes_keep_their_one(table_of: Any):
    assert r3l(table_of([[1], [1], [1], [1]], **NO_BRANCH)).tolist() == [1, 1, 1, 1]


@given(st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=2, max_size=8))
def test_no_sign_is_flipped_up_to_the_success_reward(table_of: Any, totals: list[float]):
    none = {"parent_B": [-1] * len(totals), "branch_B": [0] * len(totals)}
    centred = np.array(totals) - np.mean(totals)
    assert (r3l(table_of([[total] for total in totals], **none)) * centred >= 0).all()


def test_settings_out_of_range_are_refused(table_of: Any):
    with pytest.raises(ConfigError, match="amplify"):
        r3l(table_of([[0]] * 4, **NO_BRANCH), amplify=-1.0)
