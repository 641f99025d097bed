"""RL-ZVP: entropy credits cohorts in which nothing differs."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.rl_zvp import rl_zvp, zero_variance_credit

NAN = float("nan")
ENTROPY = [0.5, 2.0, 1.0]


@pytest.mark.parametrize(("reward", "expected"), [(1, [0.05, 0.2, 0.1]), (0, [-0.15, 0, -0.1])])
def test_the_worked_example(table_of: Any, reward: int, expected: list[float]):
    table = table_of([[0, 0, reward]] * 2, surprisal_N=ENTROPY * 2)
    np.testing.assert_allclose(rl_zvp(table), expected * 2, atol=1e-6)


def test_the_maximum_is_of_the_own_trajectory(table_of: Any):
    table = table_of([[0, 0], [0, 0]], surprisal_N=[1.0, 2.0, 5.0, 3.0])
    np.testing.assert_allclose(rl_zvp(table), [-0.1, 0, 0, -0.2], atol=1e-6)


def test_mixed_cohorts_are_grpo(table_of: Any):
    table = table_of([[0, 1], [0.5], [0]], surprisal_N=[1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(rl_zvp(table), grpo(table))


def test_a_measured_entropy_goes_before_its_estimate(table_of: Any):
    table = table_of([[1], [1]], surprisal_N=[9.0, 9.0], entropy_N=[1.0, 2.0])
    np.testing.assert_allclose(rl_zvp(table), [0.1, 0.2], atol=1e-6)


def test_turns_without_tokens_get_nothing(table_of: Any):
    table = table_of([[0, 0], [0, 0]], surprisal_N=[NAN, 2.0, NAN, NAN])
    assert rl_zvp(table).tolist() == [0, 0, 0, 0]
    table = table_of([[0, 1], [0, 1]], surprisal_N=[NAN, 2.0, NAN, NAN])
    np.testing.assert_allclose(rl_zvp(table), [0, 0.2, 0, 0], atol=1e-6)


def test_equal_totals_of_a_success_and_a_failure_say_nothing(table_of: Any):
    assert rl_zvp(table_of([[0.5], [0.5]], outcome=[0.5, 0], surprisal_N=[1.0, 2.0])).tolist() == [0, 0]


def test_the_same_rule_per_token():
    credit_S = zero_variance_credit(
        np.array([*ENTROPY, *ENTROPY, 7.0]), np.array([0, 3, 6]), np.array([1, -1, 0]), alpha=0.1
    )
    np.testing.assert_allclose(credit_S, [0.05, 0.2, 0.1, -0.15, 0, -0.1, 0], atol=1e-9)


def test_infinite_entropy_and_settings_out_of_range_are_refused(table_of: Any):
    with pytest.raises(ShapeError, match="surprisal_N is inf at trajectory 1, turn 0"):
        rl_zvp(table_of([[1], [1]], surprisal_N=[0.0, np.inf]))
    for bad in ({"alpha": -0.1}, {"eps": -1.0}, {"ddof": 2}):
        with pytest.raises(ConfigError, match="rl_zvp"):
            rl_zvp(table_of([[1], [1]], surprisal_N=[0.0, 0.0]), **bad)
