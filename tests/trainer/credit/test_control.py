"""The negative controls keep everything but the link between a trajectory and its credit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories


def test_two_trajectories_swap_and_the_longer_repeats_the_last(table_of: Any):
    table = table_of([[0, 0, 0], [0, 0]])
    advantage_N = np.array([1, 2, 3, 4, 5], np.float32)
    assert shuffle_between_trajectories(table, advantage_N, seed=3).tolist() == [4, 5, 5, 1, 2]


@given(st.lists(st.integers(1, 4), min_size=2, max_size=12), st.integers(0, 2**40))
def test_nobody_keeps_its_own_and_everybody_gives_once(table_of: Any, lengths: list[int], seed: int):
    table = table_of([[0] * length for length in lengths])
    donors = shuffle_between_trajectories(table, table.traj_N.astype(np.float32), seed)
    firsts = np.cumsum([0, *lengths[:-1]])
    assert sorted(donors[firsts].tolist()) == list(range(len(lengths)))
    assert (donors != table.traj_N).all()
    assert donors.tolist() == np.repeat(donors[firsts], lengths).tolist()
    np.testing.assert_array_equal(donors, shuffle_between_trajectories(table, table.traj_N.astype(np.float32), seed))


def test_seeds_differ(table_of: Any):
    table = table_of([[0]] * 20)
    advantage_N = np.arange(20, dtype=np.float32)
    results = {tuple(shuffle_between_trajectories(table, advantage_N, seed)) for seed in range(5)}
    assert len(results) == 5


def test_what_cannot_be_shuffled_is_refused(table_of: Any):
    with pytest.raises(ShapeError, match="cannot swap advantages"):
        shuffle_between_trajectories(table_of([[0, 1]]), np.zeros(2, np.float32), 0)
    with pytest.raises(ShapeError, match=r"advantage_N has shape \(3,\), expected \(2,\)"):
        shuffle_between_trajectories(table_of([[0], [1]]), np.zeros(3, np.float32), 0)


def test_random_rewards_are_fair_coins_paid_on_the_last_turn(table_of: Any):
    table = table_of([[5, 5, 5]] * 200)
    tossed = random_reward(table, seed=7)
    assert set(tossed.outcome_B.tolist()) == {0.0, 1.0}
    assert 70 <= tossed.outcome_B.sum() <= 130
    paid = tossed.reward_N.reshape(200, 3)
    assert (paid[:, :2] == 0).all()
    assert paid[:, 2].tolist() == tossed.outcome_B.tolist() == tossed.total_B.tolist()
    assert np.isnan(tossed.process_N).all()
    for name in ("traj_N", "index_N", "state_N", "cohort_B"):
        assert getattr(tossed, name) is getattr(table, name)


def test_random_rewards_depend_on_the_seed_and_not_on_the_reward(table_of: Any):
    won, lost = table_of([[1]] * 40), table_of([[0]] * 40)
    assert random_reward(won, 1).reward_N.tolist() == random_reward(lost, 1).reward_N.tolist()
    assert random_reward(won, 1).reward_N.tolist() != random_reward(won, 2).reward_N.tolist()
