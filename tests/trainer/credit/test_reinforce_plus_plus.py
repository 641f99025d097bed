"""REINFORCE++ and its variant with a baseline per cohort."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.reinforce_plus_plus import reinforce_plus_plus, reinforce_plus_plus_baseline

TWO_COHORTS = [[1], [0], [0], [0], [1], [1], [1], [0]]


def whitened_slowly(values: list[float], tokens: list[int], eps: float) -> list[float]:
    """One entry per token, then the textbook formula."""
    spread = [value for value, count in zip(values, tokens, strict=True) for _ in range(count)]
    mean = sum(spread) / len(spread)
    variance = sum((value - mean) ** 2 for value in spread) / (len(spread) - 1)
    return [(value - mean) / (variance + eps) ** 0.5 for value in values]


def test_two_cohorts_of_one_token_each(table_of: Any):
    """The centred variance is 1.5 / 7 = 0.214286; GRPO would give ±1.5 and ±0.5."""
    table = table_of(TWO_COHORTS, [0] * 4 + [1] * 4, tokens_N=[1] * 8)
    expected = [1.620185] + [-0.540062] * 3 + [0.540062] * 3 + [-1.620185]
    np.testing.assert_allclose(reinforce_plus_plus_baseline(table, eps=0.0), expected, atol=1e-5)


def test_long_turns_count_more(table_of: Any):
    table = table_of([[0, 1], [0, 0], [0.5]], tokens_N=[2, 5, 1, 1, 7])
    expected = whitened_slowly([1, 1, 0, 0, 0.5], [2, 5, 1, 1, 7], 1e-8)
    np.testing.assert_allclose(reinforce_plus_plus(table), expected, atol=1e-5)
    centred = [0.5, 0.5, -0.5, -0.5, 0.0]
    expected = whitened_slowly(centred, [2, 5, 1, 1, 7], 1e-8)
    np.testing.assert_allclose(reinforce_plus_plus_baseline(table), expected, atol=1e-5)


def test_each_turn_is_credited_with_what_comes_after_it(table_of: Any):
    table = table_of([[1, 0, 2], [0, 1]], tokens_N=[1, 1, 1, 1, 1])
    expected = whitened_slowly([1.5, 1.0, 2.0, 0.5, 1.0], [1] * 5, 1e-8)
    np.testing.assert_allclose(reinforce_plus_plus(table, gamma=0.5), expected, atol=1e-5)


def test_the_penalty_lowers_the_reward_of_its_turn(table_of: Any):
    table = table_of([[0, 1], [0, 0]], tokens_N=[1] * 4, logratio_N=[2.0, 1.0, 0.0, -4.0])
    expected = whitened_slowly([0.7, 0.9, 0.4, 0.4], [1] * 4, 1e-8)
    np.testing.assert_allclose(reinforce_plus_plus(table, kl=0.1), expected, atol=1e-5)
    with pytest.raises(ShapeError, match="logratio_N"):
        reinforce_plus_plus(table_of([[0, 1], [0]], tokens_N=[1, 1, 1]), kl=0.1)


def test_a_cohort_of_one_stays_out_of_the_baseline_variant(table_of: Any):
    """Public code lets its raw reward through the whitening."""
    pair, alone = [[1], [0]], [[5, 5]]
    both = reinforce_plus_plus_baseline(table_of([*pair, *alone], [0, 0, 1], tokens_N=[1, 2, 3, 4]))
    assert both[2:].tolist() == [0, 0]
    np.testing.assert_array_equal(both[:2], reinforce_plus_plus_baseline(table_of(pair, tokens_N=[1, 2])))


def test_turns_without_tokens_count_for_nothing(table_of: Any):
    table = table_of([[1], [0], [9]], tokens_N=[3, 3, 0])
    expected = whitened_slowly([1, 0], [3, 3], 1e-8)
    np.testing.assert_allclose(reinforce_plus_plus(table)[:2], expected, atol=1e-5)
    assert reinforce_plus_plus(table_of([[1], [0]], tokens_N=[0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("settings", [{"gamma": 1.1}, {"kl": -0.1}, {"eps": -1.0}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, float]):
    with pytest.raises(ConfigError):
        reinforce_plus_plus(table_of([[1], [0]], tokens_N=[1, 1]), **settings)
    with pytest.raises(ConfigError, match="eps"):
        reinforce_plus_plus_baseline(table_of([[1], [0]], tokens_N=[1, 1]), eps=-1.0)
