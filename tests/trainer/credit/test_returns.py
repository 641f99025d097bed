"""Reward-to-go minus what the siblings got."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError
from turngate.trainer.credit.returns import returns, reward_to_go


def test_each_turn_is_credited_with_what_came_after_it(table_of: Any):
    table = table_of([[1, 0, 2], [0, 1]])
    assert returns(table).tolist() == [2, 1, 1, -2, -2]
    assert returns(table, baseline="none").tolist() == [3, 2, 2, 1, 1]


def test_with_a_discount_the_baseline_is_the_siblings_discounted_start(table_of: Any):
    table = table_of([[1, 0, 2], [0, 1], [0]])
    starts = [1.5, 0.5, 0.0]  # 1 + 0 + 2/4, 0 + 1/2, 0
    others = [0.25, 0.75, 1.0]
    to_go = [1.5, 1.0, 2.0, 0.5, 1.0, 0.0]
    assert reward_to_go(table, 0.5)[[0, 3, 5]].tolist() == starts
    expected = [g - others[i] for g, i in zip(to_go, [0, 0, 0, 1, 1, 2], strict=True)]
    np.testing.assert_allclose(returns(table, gamma=0.5), expected, atol=1e-6)


def test_gamma_zero_leaves_the_reward_of_the_turn(table_of: Any):
    assert returns(table_of([[1, 0, 2]]), gamma=0.0, baseline="none").tolist() == [1, 0, 2]


def test_a_trajectory_alone_has_no_baseline_and_gets_zero(table_of: Any):
    assert returns(table_of([[1, 0, 2], [3]], cohorts=[0, 1])).tolist() == [0, 0, 0, 0]


def test_the_turn_that_decides_keeps_its_credit_when_the_totals_are_equal(table_of: Any):
    """Both are paid 1, but only one of them early: its later turns were worth less than what siblings get."""
    assert returns(table_of([[1, 0], [0, 1]])).tolist() == [0, -1, 0, 0]


def test_totals_that_differ_by_rounding_are_equal(table_of: Any):
    table = table_of([[0.1, 0.2], [0.3]])
    assert table.total_B[0] != table.total_B[1]
    assert returns(table)[[0, 2]].tolist() == [0, 0]


@pytest.mark.parametrize("settings", [{"gamma": 1.01}, {"gamma": -0.1}, {"gamma": float("nan")}, {"baseline": "mean"}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"gamma is|baseline is"):
        returns(table_of([[1], [0]]), **settings)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 64, 100])
def test_long_episodes_sum_to_the_end_and_not_beyond(table_of: Any, length: int):
    table = table_of([[1] * length, [5] * 3])
    to_go = reward_to_go(table, 1.0)
    assert to_go.tolist() == [*range(length, 0, -1), 15, 10, 5]
