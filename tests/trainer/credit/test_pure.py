"""PURE against its worked numbers."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.pure import pure, softmin_steps, suffix_min_steps

WORST_IN_THE_MIDDLE, CLOSE = [0.8, -0.6, 0.4], [0.3, 0.2, 0.25]
nan = np.nan


@pytest.mark.parametrize(
    ("scores", "steps", "sums"),
    [
        (WORST_IN_THE_MIDDLE, [0.0, -0.599972, 0.000018], [-0.599953, -0.599954, 0.000018]),
        (CLOSE, [0.186324 * 0.3, 0.506480 * 0.2, 0.307196 * 0.25], [0.233992, 0.178095, 0.076799]),
    ],
)
def test_the_worked_softmin(table_of: Any, scores: list[float], steps: list[float], sums: list[float]):
    table = table_of([[0, 0, 0]], process=[scores])
    np.testing.assert_allclose(softmin_steps(table), steps, atol=1e-5)
    np.testing.assert_allclose(pure(table, baseline="none"), sums, atol=1e-5)


def test_the_strict_mode_gives_the_minimum_from_each_turn_on(table_of: Any):
    table = table_of([[0, 0, 0], [0, 0, 0]], process=[WORST_IN_THE_MIDDLE, CLOSE])
    sums = pure(table, min_mode="strict_suffix", baseline="none")
    np.testing.assert_allclose(sums, [-0.6, -0.6, 0.4, 0.2, 0.2, 0.25], atol=1e-6)
    np.testing.assert_allclose(suffix_min_steps(table)[:3], [0.0, -1.0, 0.4], atol=1e-6)


def test_turns_without_an_open_verdict_are_in_no_minimum(table_of: Any):
    table = table_of(
        [[0] * 4, [0]],
        process=[[nan, 0.3, -0.9, nan], [nan]],
        is_open=[[True, True, False, True], [True]],
    )
    np.testing.assert_allclose(softmin_steps(table), [0, 0.3, 0, 0, 0], atol=1e-6)
    sums = pure(table, min_mode="strict_suffix", baseline="none")
    np.testing.assert_allclose(sums, [0.3, 0.3, 0, 0, 0], atol=1e-6)


def test_a_single_step_keeps_its_score(table_of: Any):
    np.testing.assert_allclose(softmin_steps(table_of([[0], [0]], process=[[-0.7], [0.2]])), [-0.7, 0.2], atol=1e-6)


def test_the_token_baseline_is_the_siblings_mean_per_token(table_of: Any):
    """One scored turn each: −0.5 over 5 tokens, 0.4 over 2; the first is set against 0.2 per token."""
    table = table_of([[0], [0]], process=[[-0.5], [0.4]], tokens_N=[5, 2])
    np.testing.assert_allclose(pure(table), [-0.5 - 5 * 0.2, 0.4 + 2 * 0.1], atol=1e-6)
    np.testing.assert_allclose(pure(table, baseline="step"), [-0.9, 0.9], atol=1e-6)


def test_the_outcome_is_added_with_its_own_baseline(table_of: Any):
    table = table_of([[1], [0], [0], [0]], process=[[0.5]] * 4, tokens_N=[3] * 4)
    np.testing.assert_allclose(pure(table, coef=2.0), [2, -2 / 3, -2 / 3, -2 / 3], atol=1e-6)


def test_a_sum_can_be_farmed_and_a_minimum_cannot(table_of: Any):
    """A second good step raises the sum of scores; the minimum stays."""
    table = table_of([[0, 0], [0]], process=[[0.5, 0.5], [0.5]])
    np.testing.assert_allclose(pure(table, baseline="none")[[0, 2]], [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"tau": 0.0}, "tau is 0.0"),
        ({"coef": -1.0}, "coef is -1.0"),
        ({"min_mode": "min"}, "min_mode is 'min'"),
        ({"baseline": "rloo"}, "baseline is 'rloo'"),
        ({"outcome": "x"}, "outcome is 'x'"),
    ],
)
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any], match: str):
    with pytest.raises(ConfigError, match=match):
        pure(table_of([[0]], tokens_N=[1]), **settings)


def test_only_the_token_baseline_needs_tokens(table_of: Any):
    table = table_of([[0], [1]], process=[[0.1], [0.2]])
    with pytest.raises(ShapeError, match="tokens_N"):
        pure(table)
    assert np.isfinite(pure(table, baseline="step")).all()
