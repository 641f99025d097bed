"""EMPG against its worked example."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError
from turngate.trainer.credit.empg import empg, modulate
from turngate.trainer.credit.grpo import grpo

ENTROPY = np.array([0.2, 0.6, 1.0])
LAST = np.array([False, False, True])
ONE_POOL = np.zeros(3, np.int64)
nan = np.nan


def test_the_worked_example():
    shaped = modulate(np.ones(3), ENTROPY, ONE_POOL, LAST)
    np.testing.assert_allclose(shaped, [0.533528, -0.076259, -0.457269], atol=1e-5)


def test_the_parts_of_the_worked_example():
    """g = 1.519441, 0.921588, 0.558971; with the bonus 1.549768, 0.939982, 0.558971 before centring."""
    damped = modulate(np.ones(3), ENTROPY, ONE_POOL, LAST, zeta=0.0)
    np.testing.assert_allclose(damped, np.array([1.519441, 0.921588, 0.558971]) - 1.0, atol=1e-5)
    bonus = modulate(np.zeros(3), ENTROPY, ONE_POOL, LAST)
    raw = np.array([1.549768 - 1.519441, 0.939982 - 0.921588, 0.0])
    np.testing.assert_allclose(bonus, raw - raw.mean(), atol=1e-5)


def test_equal_entropies_damp_nothing():
    shaped = modulate(np.array([1.0, 1.0, 4.0]), np.full(3, 0.3), ONE_POOL, LAST, zeta=0.0)
    np.testing.assert_allclose(shaped, [-1, -1, 2], atol=1e-12)


def test_entropies_within_rounding_are_equal():
    shaped = modulate(np.array([1.0, -1.0, 0.0]), np.array([0.3, 0.3 + 5e-7, 0.3]), ONE_POOL, LAST, zeta=0.0)
    assert shaped.tolist() == [1.0, -1.0, 0.0]


def test_the_bonus_comes_from_the_next_turn_of_the_same_trajectory():
    """Turn 1 ends its trajectory, so it gets none although a confident turn of the next one follows."""
    last = np.array([False, True, True])
    shaped = modulate(np.zeros(3), np.array([1.0, 0.5, 0.0]), ONE_POOL, last)
    bonus = 0.05 * np.exp(-0.5)
    np.testing.assert_allclose(shaped, np.array([bonus, 0, 0]) - bonus / 3, atol=1e-12)


def test_a_turn_without_entropy_keeps_its_advantage():
    shaped = modulate(np.array([5.0, 1.0, -1.0]), np.array([nan, 0.2, 0.8]), ONE_POOL, LAST, zeta=0.0)
    damp = np.exp([0.0, -1.0]) / np.exp([0.0, -1.0]).mean()
    raw = np.array([1.0, -1.0]) * damp
    np.testing.assert_allclose(shaped, [5.0, *(raw - raw.mean())], atol=1e-12)


def test_the_rule_applied_to_a_table(table_of: Any):
    table = table_of([[0, 1], [0, 0]], surprisal_N=[0.2, 0.6, 1.0, 0.4])
    base_N = grpo(table).astype(np.float64)
    last = np.array([False, True, False, True])
    expected = modulate(base_N, np.array([0.2, 0.6, 1.0, 0.4]), np.zeros(4, np.int64), last)
    np.testing.assert_allclose(empg(table), expected, atol=1e-6)


def test_the_published_statistics_are_over_the_batch(table_of: Any):
    """An outlier in another cohort sets the scale, unless the statistics are per cohort."""
    rewards, cohorts = [[1], [0], [1], [0]], [0, 0, 1, 1]
    calm = table_of(rewards, cohorts=cohorts, surprisal_N=[0.1, 0.2, 0.3, 0.4])
    wild = table_of(rewards, cohorts=cohorts, surprisal_N=[0.1, 0.2, 0.3, 9.0])
    assert not np.allclose(empg(calm)[:2], empg(wild)[:2], atol=1e-3)
    np.testing.assert_allclose(empg(calm, scope="cohort")[:2], empg(wild, scope="cohort")[:2], atol=1e-6)


def test_equal_totals_leave_the_bonus_only(table_of: Any):
    table = table_of([[0, 1], [0, 1]], surprisal_N=[0.0, 0.0, 0.0, 1.0])
    bonus = np.array([0.05, 0, 0.05 * np.exp(-1.0), 0])
    np.testing.assert_allclose(empg(table), bonus - bonus.mean(), atol=1e-6)


@pytest.mark.parametrize("settings", [{"k": -1.0}, {"k_next": -1.0}, {"zeta": -1.0}, {"eps": -1.0}, {"scope": "task"}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        empg(table_of([[0], [1]], surprisal_N=[0, 0]), **settings)
