"""GiGPO against its worked example, and what happens at states."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.gigpo import gigpo, gigpo_terms, step_groups
from turngate.trainer.credit.grpo import grpo

REWARDS = [[0, 0, 1], [0, 0, 0]]
STATES = [[10, 11, 12], [10, 13, 11]]


def test_the_worked_example(table_of: Any):
    advantage_N = gigpo(table_of(REWARDS, states=STATES))
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N, [0.95125, 0.975, 0.5, -0.95125, -0.5, -0.975], atol=1e-6)


def test_its_terms_add_up_and_say_how_many_were_compared(table_of: Any):
    table = table_of(REWARDS, states=STATES)
    episodes, steps = gigpo_terms(table, omega=2.0)
    assert (episodes.credit_N + steps.credit_N).astype(np.float32).tolist() == gigpo(table, omega=2.0).tolist()
    assert episodes.compared_N.tolist() == [1] * 6
    assert steps.compared_N.tolist() == [1, 1, 0, 1, 0, 1]
    assert (steps.credit_N == 0).tolist() == [False, False, True, False, True, False]


def test_omega_scales_the_step_part_only(table_of: Any):
    table = table_of(REWARDS, states=STATES)
    assert gigpo(table, omega=0.0).tolist() == [0.5] * 3 + [-0.5] * 3
    np.testing.assert_allclose(gigpo(table, omega=2.0)[:3], [0.5 + 0.9025, 0.5 + 0.95, 0.5], atol=1e-6)


def test_two_visitors_of_a_state_get_a_fixed_step_part_under_std(table_of: Any):
    """±0.7071 each for the two parts; a state met once keeps the episode part."""
    advantage_N = gigpo(table_of(REWARDS, states=STATES), mode="mean_std_norm", eps=0.0)
    half = 0.7071068
    np.testing.assert_allclose(advantage_N, [2 * half, 2 * half, half, -2 * half, -half, -2 * half], atol=1e-6)


def test_states_of_other_cohorts_and_unknown_states_are_not_compared(table_of: Any):
    rewards, states = [[1], [0], [1], [0]], [[5], [-1], [5], [-1]]
    table = table_of(rewards, cohorts=[0, 0, 1, 1], states=states)
    assert gigpo(table).tolist() == [0.5, -0.5, 0.5, -0.5]


def test_a_detour_through_the_same_state_is_paid_less_than_the_way_on(table_of: Any):
    advantage_N = gigpo(table_of([[0, 0, 1]], states=[[7, 7, 8]]), gamma=0.5)
    assert advantage_N.tolist() == [-0.125, 0.125, 0.0]


def test_the_episode_mean_counts_trajectories_not_turns(table_of: Any):
    advantage_N = gigpo(table_of([[0, 0, 0, 1], [0]]))
    assert advantage_N.tolist() == [0.5] * 4 + [-0.5]


def test_the_published_episode_mean_counts_turns(table_of: Any):
    """Mean 4/5 over five turns; its std over them is sqrt(0.2)."""
    table = table_of([[0, 0, 0, 1], [0]])
    np.testing.assert_allclose(gigpo(table, episode_mean="step"), [0.2] * 4 + [-0.8], atol=1e-6)
    scaled_N = gigpo(table, episode_mean="step", mode="mean_std_norm", eps=0.0)
    np.testing.assert_allclose(scaled_N, np.array([0.2] * 4 + [-0.8]) / 0.2**0.5, atol=1e-6)


def test_both_episode_means_agree_for_episodes_of_equal_length(table_of: Any):
    table = table_of([[0, 1], [0, 0], [0.5, 0]], states=[[1, 2], [1, 3], [1, 2]])
    np.testing.assert_allclose(gigpo(table, episode_mean="step"), gigpo(table), atol=1e-6)


def test_a_single_trajectory_has_no_episode_part_either_way(table_of: Any):
    assert not gigpo(table_of([[0, 0, 1]]), episode_mean="step").any()


def test_similar_anchors_are_read_from_their_column(table_of: Any):
    table = table_of(REWARDS, states=STATES)
    with pytest.raises(ShapeError, match="gigpo needs column 'similar_N'"):
        gigpo(table, anchors="similar")
    moved = table_of(REWARDS, similar_N=[10, 11, 12, 10, 13, 11])
    np.testing.assert_array_equal(gigpo(moved, anchors="similar"), gigpo(table))


@pytest.mark.parametrize(("mode", "std"), [("mean_norm", False), ("mean_std_norm", True)])
def test_without_state_keys_it_is_grpo(table_of: Any, mode: Any, std: bool):
    table = table_of([[0, 1], [0.5], [0, 0, 0.25]])
    np.testing.assert_array_equal(gigpo(table, mode=mode), grpo(table, std=std))


def test_hashes_use_all_63_bits(table_of: Any):
    top = 2**63 - 1
    table = table_of([[1, 0], [0, 0]], states=[[0, top], [0, top - 1]])
    known, group = step_groups(table)
    assert dict(zip(known.tolist(), group.tolist(), strict=True)) == {0: 0, 2: 0, 3: 1, 1: 2}


@pytest.mark.parametrize(
    "settings", [{"mode": "mean"}, {"eps": -1.0}, {"gamma": 2.0}, {"anchors": "a"}, {"episode_mean": "m"}]
)
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError):
        gigpo(table_of(REWARDS, states=STATES), **settings)
