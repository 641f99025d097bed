"""PRIME and iStar against their worked numbers, and the two losses against finite differences."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.implicit import cross_entropy, istar, preference, prime

nan = np.nan


def test_prime_rewards_are_scaled_log_ratios(table_of: Any):
    """Log-ratios 2, −1, 3 at β=0.05 are 0.1, −0.05, 0.15; the sibling says 0 per token."""
    table = table_of([[0, 0, 0], [0]], logratio_N=[2, -1, 3, 0], tokens_N=[1, 1, 1, 4])
    sums = prime(table)
    np.testing.assert_allclose(sums[:3], [0.2, 0.1, 0.15], atol=1e-6)
    assert sums[3] == pytest.approx(-4 * 0.2 / 3, abs=1e-6)


def test_prime_adds_two_leave_one_out_baselines(table_of: Any):
    """Rates per token: 0.05, 0.02, −0.01."""
    table = table_of([[0, 1], [0], [0]], logratio_N=[1, 1, 2, -1], tokens_N=[1, 1, 5, 5])
    rates = np.array([0.05, 0.02, -0.01])
    outcome = np.array([1, -0.5, -0.5])
    others = np.array([rates[[1, 2]].mean(), rates[[0, 2]].mean(), rates[[0, 1]].mean()])
    expected = [
        outcome[0] + 2 * (0.05 - others[0]),
        outcome[0] + 0.05 - others[0],
        outcome[1] + 5 * (0.02 - others[1]),
        outcome[2] + 5 * (-0.01 - others[2]),
    ]
    np.testing.assert_allclose(prime(table), expected, atol=1e-6)


def test_prime_leaves_out_what_was_not_measured(table_of: Any):
    """The second trajectory has no rate: the first and third are compared with each other only."""
    table = table_of([[0, 0], [0], [0]], logratio_N=[2, nan, nan, 4], tokens_N=[1, 9, 1, 1])
    np.testing.assert_allclose(prime(table), [-0.1, 0.0, 0.0, 0.1], atol=1e-6)


def test_istar_normalises_over_all_turns_of_the_cohort(table_of: Any):
    table = table_of([[0, 1], [0]], logratio_N=[1, 2, 3])
    half = 0.707107
    np.testing.assert_allclose(istar(table, eps=0.0), [half - 1, half, -half + 1], atol=1e-5)
    np.testing.assert_allclose(istar(table, eps=0.0, alpha=0.5), [half - 0.5, half, -half + 0.5], atol=1e-5)
    np.testing.assert_allclose(istar(table, std=False), [0.45, 0.5, -0.45], atol=1e-6)


def test_istar_uses_every_turn_not_the_first_of_each_trajectory(table_of: Any):
    one = table_of([[0, 1], [0, 0]], logratio_N=[1, 2, 3, 4])
    two = table_of([[0, 1], [0, 0]], logratio_N=[1, 2, 3, 9])
    assert istar(one)[0] != istar(two)[0]


@pytest.mark.parametrize("settings", [{"beta": -1.0}, {"alpha": -1.0}, {"eps": -1.0}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    table = table_of([[0], [1]], logratio_N=[0, 0], tokens_N=[1, 1])
    with pytest.raises(ConfigError, match=next(iter(settings))):
        istar(table, **settings)
    with pytest.raises(ConfigError, match="beta"):
        prime(table, beta=-0.1)


# --- losses ----------------------------------------------------------------------------------------------------------


def test_the_worked_cross_entropy(table_of: Any):
    """Σ r = 0.2 for an outcome of 1: p = 0.549834."""
    table = table_of([[0, 0, 1]], logratio_N=[2, -1, 3])
    loss, gradient_B = cross_entropy(table)
    assert loss == pytest.approx(0.598139, abs=1e-5)
    assert gradient_B[0] == pytest.approx(0.05 * (0.549834 - 1), abs=1e-7)


def test_the_worked_preference(table_of: Any):
    """+10 over 5 turns against −6 over 3: Δ = 0.8. Means instead of sums would give 0.598139."""
    table = table_of([[0] * 4 + [1], [0] * 3], logratio_N=[2] * 5 + [-2] * 3)
    loss, gradient_B = preference(table)
    assert loss == pytest.approx(0.371101, abs=1e-5)
    pull = 0.05 / (1 + np.exp(0.8))
    np.testing.assert_allclose(gradient_B, [-pull, pull], atol=1e-9)


def test_without_a_success_or_a_failure_there_is_no_pair(table_of: Any):
    loss, gradient_B = preference(table_of([[1], [1], [0]], cohorts=[0, 0, 1], logratio_N=[1, 2, 3]))
    assert loss == 0.0
    assert gradient_B.tolist() == [0, 0, 0]


@pytest.mark.parametrize("rule", [cross_entropy, preference])
def test_gradients_are_those_of_the_loss(table_of: Any, rule: Any):
    rng = np.random.default_rng(5)
    rewards = [[0, 1], [0], [1], [0, 0], [1], [0]]
    table = table_of(rewards, cohorts=[0, 0, 0, 1, 1, 1], logratio_N=rng.normal(size=8) * 9)
    _, gradient_B = rule(table, beta=0.3)
    assert (gradient_B != 0).all()
    for i, row in enumerate([0, 2, 3, 4, 6, 7]):
        ends = []
        for step in (1e-4, -1e-4):
            shifted = table.measured["logratio_N"].copy()
            shifted[row] += step
            ends.append(rule(replace(table, measured={"logratio_N": shifted}), beta=0.3)[0])
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(gradient_B[i], abs=1e-7)


def test_pairs_stay_inside_their_cohort(table_of: Any):
    table = table_of([[1], [0], [1], [0]], cohorts=[0, 1, 1, 0], logratio_N=[3.0, 1.0, 2.0, -1.0])
    expected = [np.log1p(np.exp(-0.05 * (3 + 1))), np.log1p(np.exp(-0.05 * (2 - 1)))]
    assert preference(table)[0] == pytest.approx(np.mean(expected), abs=1e-9)


@pytest.mark.parametrize("rule", [cross_entropy, preference])
def test_losses_need_every_log_ratio(table_of: Any, rule: Any):
    with pytest.raises(ShapeError, match="logratio_N is nan at trajectory 1, turn 0"):
        rule(table_of([[1], [0]], logratio_N=[1, nan]))


def test_cross_entropy_needs_probabilities_as_outcomes(table_of: Any):
    with pytest.raises(ShapeError, match=r"outcome_B is 2\.0 at trajectory 1"):
        cross_entropy(table_of([[1], [2]], logratio_N=[1, 1]))
