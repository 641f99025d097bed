"""The shared statistics, and what a table must fulfil before anyone computes with it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.credit_rules import CREDITS
from tests.trainer.credit.refusing import not_refused
from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import group

NAMES = ["gigpo", "grpo", "returns", "rloo"]  # the others have tests of their own for the same laws


def test_credits_are_known_under_the_names_of_their_functions():
    assert [name for name, rule in CREDITS.items() if rule.__name__ != name] == []


def test_statistics_per_group():
    stats = group(np.array([1.0, 5.0, 3.0, 7.0, 7.0]), np.array([0, 1, 0, 2, 2]))
    assert stats.count_G.tolist() == [2, 1, 2]
    assert stats.mean_G.tolist() == [2.0, 5.0, 7.0]
    assert stats.degenerate_G.tolist() == [False, True, True]
    assert stats.centred_M.tolist() == [-1.0, 0.0, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(stats.std_G(), [np.sqrt(2), 0, 0])
    np.testing.assert_allclose(stats.std_G(ddof=0), [1, 0, 0])
    np.testing.assert_allclose(stats.z_M(eps=0.0), [-(0.5**0.5), 0, 0.5**0.5, 0, 0])


@pytest.mark.parametrize(("spread", "degenerate"), [(0.5e-6, True), (2e-6, False)])
@pytest.mark.parametrize("level", [0.0, 1000.0])
def test_a_range_within_rounding_is_no_range(spread: float, degenerate: bool, level: float):
    scale = max(1.0, level)
    assert group(np.array([level, level + spread * scale]), np.zeros(2, np.int64)).degenerate_G.tolist() == [degenerate]


@pytest.mark.parametrize(("value", "count"), [(0.9, 12), (0.7, 7), (0.1, 10), (1e6 + 0.1, 9)])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("grpo", {"eps": 1e-8}),
        ("rloo", {}),
        ("returns", {}),
        ("gigpo", {"gamma": 1.0, "mode": "mean_std_norm", "eps": 1e-8}),
    ],
)
def test_equal_rewards_never_train(table_of: Any, name: str, settings: dict[str, Any], value: float, count: int):
    """Without the snap, twelve float32 copies of 0.9 give 0.886 at eps=1e-8."""
    table = table_of([[0, value]] * count, states=[[1, 2]] * count)
    assert not CREDITS[name](table, **settings).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_cohort_of_one_gets_exactly_zero(table_of: Any, name: str):
    advantage_N = CREDITS[name](table_of([[1, 0.5], [0, 3]], cohorts=[0, 1], states=[[1, 2], [1, 2]]))
    assert advantage_N.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("process_N", np.zeros(2, np.float32), r"process_N has shape \(2,\), expected \(3,\)"),
        ("reward_N", np.zeros((3, 1), np.float32), r"reward_N has shape \(3, 1\), expected \(3,\)"),
        ("open_N", np.ones(4, np.bool_), "open_N"),
        ("state_N", np.zeros(0, np.int64), "state_N"),
        ("cohort_B", np.zeros(3, np.int32), r"cohort_B has shape \(3,\), expected \(2,\)"),
        ("outcome_B", np.zeros(3, np.float32), "cohort_B"),
        ("reward_N", np.array([0, np.nan, 0], np.float32), "reward_N is nan at trajectory 0, turn 1"),
        ("reward_N", np.array([0, 0, -np.inf], np.float32), "reward_N is -inf at trajectory 1, turn 0"),
        ("process_N", np.array([0, np.inf, 0], np.float32), "process_N is inf at trajectory 0, turn 1"),
        ("outcome_B", np.array([0, np.nan], np.float32), "trajectory 1"),
        ("traj_N", np.array([0, 1, 0], np.int32), "traj_N"),
        ("traj_N", np.array([0, 0, 2], np.int32), "traj_N"),
        ("traj_N", np.array([0, 0, 0], np.int32), "index_N must count"),
        ("traj_N", np.array([1, 1, 2], np.int32), "traj_N"),
        ("index_N", np.array([0, 2, 0], np.int32), "index_N"),
        ("index_N", np.array([0, 1, 2], np.int32), "index_N"),
        ("cohort_B", np.array([0, -1], np.int32), "cohort_B"),
    ],
)
def test_columns_that_do_not_fit_are_refused(table_of: Any, column: str, value: Any, match: str):
    table = replace(table_of([[0, 1], [0]]), **{column: value})
    found = not_refused({name: CREDITS[name] for name in NAMES}, table, match)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_table_is_refused(table_of: Any, name: str):
    with pytest.raises(ShapeError, match="no turns"):
        CREDITS[name](table_of([]))
