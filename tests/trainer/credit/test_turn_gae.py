"""GAE over turns, and the targets of its critic."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.turn_gae import turn_gae, value_targets

NUMBER = st.integers(-8, 8).map(lambda k: k / 4)
EPISODE = st.tuples(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=9), NUMBER)


def test_the_worked_example(table_of: Any):
    """δ = 0.094, 0.093, 0.3 at γ=0.99, λ=0.9."""
    table = table_of([[0, 0, 1]], value_N=[0.5, 0.6, 0.7])
    np.testing.assert_allclose(turn_gae(table), [0.415027, 0.3603, 0.3], atol=1e-5)
    np.testing.assert_allclose(value_targets(table), [0.915027, 0.9603, 1.0], atol=1e-5)


def test_a_truncated_episode_goes_on_from_the_value_after_it(table_of: Any):
    table = table_of([[0], [0]], value_N=[0.5, 0.5], bootstrap_B=[0.8, 0.0])
    np.testing.assert_allclose(turn_gae(table), [0.99 * 0.8 - 0.5, -0.5], atol=1e-6)


@given(st.lists(EPISODE, min_size=1, max_size=5), st.sampled_from([0.0, 0.7, 1.0]), st.sampled_from([0.0, 0.9, 1.0]))
@settings(max_examples=40)
def test_against_the_recursion(table_of: Any, batch: list[Any], gamma: float, lam: float):
    expected: list[float] = []
    for turns, bootstrap in batch:
        following, after, advantage = 0.0, bootstrap, []
        for reward, value in reversed(turns):
            following = reward + gamma * after - value + gamma * lam * following
            advantage.append(following)
            after = value
        expected += reversed(advantage)
    table = table_of(
        [[reward for reward, _ in turns] for turns, _ in batch],
        value_N=[value for turns, _ in batch for _, value in turns],
        bootstrap_B=[bootstrap for _, bootstrap in batch],
    )
    np.testing.assert_allclose(turn_gae(table, gamma=gamma, lam=lam), expected, atol=1e-4)


def test_without_a_critic_it_is_the_return(table_of: Any):
    table = table_of([[1, 0, 2], [0, 1]], value_N=[0.0] * 5)
    plain = returns(table, gamma=0.5, baseline="none")
    np.testing.assert_allclose(turn_gae(table, gamma=0.5, lam=1.0), plain, atol=1e-6)


def test_one_turn_is_reward_minus_value(table_of: Any):
    np.testing.assert_allclose(turn_gae(table_of([[1], [0]], value_N=[0.25, 0.75])), [0.75, -0.75], atol=1e-6)


def test_whitening_weighs_turns_by_their_tokens(table_of: Any):
    """Advantages 1 and 0 with 1 and 3 tokens: mean ¼, variance ¾ · 1/3."""
    table = table_of([[1], [0]], value_N=[0.0, 0.0], tokens_N=[1, 3])
    np.testing.assert_allclose(turn_gae(table, whitened=True), [1.5, -0.5], atol=1e-5)


@pytest.mark.parametrize("column", ["value_N", "bootstrap_B"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_must_be_finite(table_of: Any, column: str, bad: float):
    columns = {"value_N": [0.0, 0.0], "bootstrap_B": [0.0, 0.0]} | {column: [0.0, bad]}
    with pytest.raises(ShapeError, match=f"{column} is {bad} at trajectory 1"):
        turn_gae(table_of([[1], [0]], **columns))


@pytest.mark.parametrize("bad", [{"gamma": 1.1}, {"lam": -0.1}, {"gamma": float("nan")}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, float]):
    with pytest.raises(ConfigError, match=r"must lie in \[0, 1\]"):
        turn_gae(table_of([[1]], value_N=[0.0]), **bad)
