"""RiskPO: papers, their value at risk, and how it is split."""

from statistics import stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.riskpo import mixed_value_at_risk, riskpo


def test_worked_values_at_risk():
    """Quantiles 1 and 4 at τ = 0.2 and 0.8, mix 1.5."""
    risk = mixed_value_at_risk(np.array([0.0, 1, 2, 3, 4, 5]), 1.0, 4.0)
    np.testing.assert_allclose(risk, [-5, -2, -1.333333, -0.666667, 0, 0], atol=1e-5)


def test_equal_quantiles_leave_the_lower_tail():
    risk = mixed_value_at_risk(np.array([1.0, 2.0, 3.0]), 2.0, 2.0)
    np.testing.assert_allclose(risk, [1.5 * -5 / 2.5, 0, 0], atol=1e-6)


def five_by_four(table_of: Any) -> Any:
    """Five cohorts of four; the papers' scores are 0, 1, 3 and 5."""
    won = [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1]]
    return table_of([[reward] for row in won for reward in row], [c for c in range(5) for _ in range(4)])


def test_every_member_gets_the_credit_of_its_paper(table_of: Any):
    scale = stdev([0, 1, 3, 5])
    expected = np.array([-5, -2, -0.666667, 0]) / scale
    advantage_N = riskpo(five_by_four(table_of), q_low=1.0, q_high=4.0, eps=0.0)
    np.testing.assert_allclose(advantage_N.reshape(5, 4), [expected] * 5, atol=1e-5)


def test_shares_of_a_paper_sum_to_its_credit_and_push_failures_of_good_papers_up(table_of: Any):
    table = five_by_four(table_of)
    whole = riskpo(table, q_low=1.0, q_high=4.0).reshape(5, 4)[0]
    shares = riskpo(table, q_low=1.0, q_high=4.0, split="sum_mean").reshape(5, 4)
    np.testing.assert_allclose(shares.sum(axis=0), whole, atol=1e-5)
    beyond = np.array([0.25, 0.5, 0.5, -0.25, -0.25])  # the third paper: 1, 1, 1, 0, 0 against the means
    np.testing.assert_allclose(shares[:, 2], whole[2] * beyond / 0.75, atol=1e-5)
    assert shares[3, 2] > 0


def test_a_paper_exactly_at_the_means_is_split_evenly(table_of: Any):
    table = table_of([[1], [0], [0.5], [0], [1], [0.5]], [0, 0, 0, 1, 1, 1])
    table_scores = riskpo(table, bundle=2, split="sum_mean")
    assert table_scores.tolist() == [0] * 6  # scores 1, 1, 1: nothing differs
    table = table_of([[0], [1], [0.5], [0], [1], [0.5]], [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(
        riskpo(table, bundle=2, split="sum_mean")[[2, 5]], riskpo(table, bundle=2)[[2, 5]] / 2, atol=1e-6
    )


def test_a_bundle_that_is_not_full_is_scaled_up(table_of: Any):
    """Three cohorts in bundles of two: the third alone counts double."""
    rows = [[[0], [1]], [[0], [0]], [[0], [1]]]
    table = table_of([row for cohort in rows for row in cohort], [0, 0, 1, 1, 2, 2])
    expected = mixed_value_at_risk(np.array([0.0, 1.0, 0.0, 2.0]), 0.5, 1.5)
    expected /= [stdev([0, 1])] * 2 + [stdev([0, 2])] * 2
    advantage_N = riskpo(table, bundle=2, q_low=0.5, q_high=1.5, eps=0.0)
    np.testing.assert_allclose(advantage_N, expected[[0, 1, 0, 1, 2, 3]], atol=1e-6)


def test_trajectories_beyond_the_smallest_cohort_are_in_no_paper(table_of: Any):
    table = table_of([[1], [0], [1], [0], [1]], [0, 0, 0, 1, 1])
    assert riskpo(table, bundle=2, q_low=0.5, q_high=1.5)[2] == 0


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5), min_size=1, max_size=7),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_own_quantiles_against_numpy(table_of: Any, cohorts: list[list[int]], bundle: int):
    expected = [[0.0] * len(rewards) for rewards in cohorts]
    for start in range(0, len(cohorts), bundle):
        members = cohorts[start : start + bundle]
        n_papers = min(len(rewards) for rewards in members)
        scores = [sum(rewards[j] for rewards in members) * bundle / len(members) for j in range(n_papers)]
        if len(set(scores)) < 2:
            continue
        low, high = np.quantile(scores, [0.2, 0.8])
        risk = mixed_value_at_risk(np.array(scores), low, high) / (stdev(scores) + 1e-6)
        for offset in range(len(members)):
            expected[start + offset][:n_papers] = risk.tolist()
    table = table_of([[r] for row in cohorts for r in row], [c for c, row in enumerate(cohorts) for _ in row])
    np.testing.assert_allclose(riskpo(table, bundle=bundle), [e for row in expected for e in row], atol=1e-4)


def test_equal_scores_below_the_tracked_quantile_do_not_blow_up(table_of: Any):
    """Public code divides −5 by eps there."""
    assert riskpo(table_of([[0]] * 4), q_low=1.0, q_high=4.0).tolist() == [0] * 4


@pytest.mark.parametrize(
    "bad",
    [
        {"bundle": 0},
        {"mix": -1.0},
        {"eps": -1.0},
        {"split": "std"},
        {"tau_low": 0.8, "tau_high": 0.2},
        {"tau_low": 0.0},
        {"q_low": 1.0},
        {"q_low": 2.0, "q_high": 1.0},
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="riskpo"):
        riskpo(table_of([[0], [1]]), **bad)
