"""SPA against its worked numbers."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError
from turngate.trainer.credit.spa import progress_steps, spa

nan = np.nan


@pytest.fixture
def worked(table_of: Any) -> Any:
    return table_of([[0, 0, 1]], process=[[0.2, 0.5, 0.1]], grounded_N=[1, 0, 1])


def test_the_worked_example(worked: Any):
    """Steps 0.7, 0.5, 0.6."""
    sums = spa(worked, grounding=0.5, exact_sum=False, baseline="none")
    np.testing.assert_allclose(sums, [1.8, 1.1, 0.6], atol=1e-5)
    np.testing.assert_allclose(sums - np.append(sums[1:], 0), [0.7, 0.5, 0.6], atol=1e-5)


def test_the_squared_error_of_the_estimates(worked: Any):
    shares = progress_steps(worked, worked.outcome_B.astype(np.float64), exact_sum=False)
    assert (shares.sum() - 1.0) ** 2 == pytest.approx(0.04, abs=1e-6)


def test_the_error_of_the_estimates_is_spread_evenly(worked: Any):
    shares = progress_steps(worked, worked.outcome_B.astype(np.float64))
    np.testing.assert_allclose(shares, [0.266667, 0.566667, 0.166667], atol=1e-5)
    np.testing.assert_allclose(spa(worked, baseline="none"), [1.0, 0.733333, 0.166667], atol=1e-5)


def test_the_siblings_are_the_baseline(table_of: Any):
    table = table_of([[0, 1], [0, 0]], process=[[0.5, 0.5], [0.25, -0.25]])
    np.testing.assert_allclose(spa(table), [1.0, 0.5, -1.0, -1.25], atol=1e-6)


def test_turns_without_a_verdict_take_no_share(table_of: Any):
    table = table_of(
        [[0, 0, 1], [0, 0]],
        process=[[nan, 0.3, 0.9], [nan, nan]],
        is_open=[[True, True, False], [True, True]],
    )
    shares = progress_steps(table, np.array([1.0, 0.5]))
    np.testing.assert_allclose(shares, [0, 1, 0, 0, 0.5], atol=1e-6)


def test_later_shares_are_discounted(worked: Any):
    sums = spa(worked, gamma=0.5, exact_sum=False, baseline="none")
    np.testing.assert_allclose(sums, [0.2 + 0.25 + 0.025, 0.55, 0.1], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"progress": -1.0}, "progress"),
        ({"grounding": -1.0}, "grounding"),
        ({"baseline": "mean"}, "baseline is 'mean'"),
        ({"outcome": "x"}, "outcome is 'x'"),
    ],
)
def test_settings_out_of_range_are_refused(worked: Any, settings: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        spa(worked, **settings)
