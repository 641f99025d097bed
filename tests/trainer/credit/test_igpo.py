"""IGPO against its worked example."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.igpo import igpo, information_gain

BELIEF = np.array([0.1, 0.3, 0.25, 0.2, 0.25])
REWARDS = [[0, 0, 1], [0, 0]]
nan = np.nan


def test_gains_are_differences_inside_a_trajectory(table_of: Any):
    gain_N = information_gain(table_of(REWARDS), BELIEF)
    np.testing.assert_allclose(gain_N, [0.2, -0.05, nan, 0.05, nan], atol=1e-12)
    gain_N = information_gain(table_of(REWARDS), BELIEF, log=True)
    np.testing.assert_allclose(gain_N, [np.log(3), np.log(5 / 6), nan, np.log(1.25), nan], atol=1e-12)


def test_the_worked_example(table_of: Any):
    """Rewards 0.2, −0.05, 1 and 0.05, 0; mean 0.24, std 0.435029."""
    table = table_of(REWARDS, gain_N=[0.2, -0.05, nan, 0.05, nan])
    advantage_N = igpo(table, eps=0.0)
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N, [0.988440, 1.080388, 1.747011, -0.988440, -0.551688], atol=1e-5)
    own_N = igpo(table, eps=0.0, gamma=0.0)
    np.testing.assert_allclose(own_N, [-0.091948, -0.666623, 1.747011, -0.436753, -0.551688], atol=1e-5)


def test_raw_gains_telescope_to_a_potential(table_of: Any):
    """1.15, 0.95, 1: what is still paid is p_{T−1} − p_{t−1} plus the outcome."""
    table = table_of(REWARDS)
    reward_N = np.nan_to_num(information_gain(table, BELIEF)) + table.reward_N
    np.testing.assert_allclose([reward_N[0:3].sum(), reward_N[1:3].sum(), reward_N[2]], [1.15, 0.95, 1.0], atol=1e-12)
    assert reward_N[:2].sum() == pytest.approx(BELIEF[2] - BELIEF[0])


def test_a_turn_that_gained_nothing_is_taxed(table_of: Any):
    """The joint z shifts every turn by the mean: here −0.551688 for a gain of 0."""
    table = table_of([[0, 0, 1], [0, 0], [0]], gain_N=[0.2, -0.05, nan, 0.05, nan, nan], cohorts=[0, 0, 1])
    assert igpo(table, eps=0.0, gamma=0.0)[4] == pytest.approx(-0.24 / 0.435029, abs=1e-5)


def test_the_first_turn_receives_the_outcome(table_of: Any):
    table = table_of(REWARDS, gain_N=[0.0, 0.0, nan, 0.0, nan])
    other = table_of([[0, 0, 0], [0, 1]], gain_N=[0.0, 0.0, nan, 0.0, nan])
    assert igpo(table)[0] > 0 > igpo(other)[0]


def test_the_gain_of_the_last_turn_is_not_read(table_of: Any):
    one = table_of(REWARDS, gain_N=[0.2, -0.05, nan, 0.05, nan])
    two = table_of(REWARDS, gain_N=[0.2, -0.05, 7.0, 0.05, -3.0])
    np.testing.assert_array_equal(igpo(one), igpo(two))


def test_a_missing_gain_is_not_a_gain_of_zero(table_of: Any):
    """Rewards 0.2, 1, 0.05, 0 instead of five."""
    table = table_of(REWARDS, gain_N=[0.2, nan, nan, 0.05, nan])
    values = np.array([0.2, 1.0, 0.05, 0.0])
    z = (values - values.mean()) / values.std(ddof=1)
    np.testing.assert_allclose(igpo(table, eps=0.0), [z[0] + z[1], z[1], z[1], z[2] + z[3], z[3]], atol=1e-5)


@pytest.mark.parametrize("settings", [{"gamma": 2.0}, {"weight": -1.0}, {"eps": -1.0}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        igpo(table_of([[0], [1]], gain_N=[0, 0]), **settings)


@pytest.mark.parametrize(
    ("belief_N", "log", "match"),
    [
        ([0.1, 0.2], False, r"belief_N has shape \(2,\), expected \(3,\)"),
        ([0.1, np.inf, 0.2], False, "belief_N is inf at trajectory 0, turn 1"),
        ([0.1, 0.2, 0.0], True, "belief_N is 0.0 at trajectory 1, turn 0"),
    ],
)
def test_beliefs_that_do_not_fit_are_refused(table_of: Any, belief_N: list[float], log: bool, match: str):
    with pytest.raises(ShapeError, match=match):
        information_gain(table_of([[0, 0], [1]]), np.array(belief_N), log=log)
