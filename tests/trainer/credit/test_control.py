"""The negative controls keep everything but the link between a trajectory and its credit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories, shuffled_reward
from turngate.trainer.credit.gdpo import gdpo
from turngate.trainer.credit.pay_sources import successes
from turngate.trainer.credit.rloo import rloo


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


def test_random_rewards_leave_no_true_payment_of_a_component(table_of: Any):
    one, other = (table_of([[0]] * 40, **{"paid/won_B": [float(n < k) for n in range(40)]}) for k in (10, 30))
    credits = [gdpo(random_reward(table, 1)).tolist() for table in (one, other)]
    assert credits[0] == credits[1]
    assert any(credits[0])


def test_no_control_keeps_what_the_rubric_calls_a_success(table_of: Any):
    """A rule that counts successes by the rubric (``successes`` without a threshold) sees the false ones."""
    truth = [n < 13 for n in range(40)]
    table = table_of([[float(won)] for won in truth], won_B=np.array(truth))
    exchanged, tossed = shuffled_reward(table, 1), random_reward(table, 1)
    for false in (exchanged, tossed):
        assert successes(false, None).tolist() == (false.outcome_B == 1).tolist() == (false.total_B == 1).tolist()
        assert successes(false, None).tolist() != truth
    assert successes(exchanged, None).sum() == 13
    assert tossed.measured["won_B"].tolist() == random_reward(table_of([[0]] * 40), 1).measured["won_B"].tolist()


def test_rewards_are_exchanged_as_totals_and_paid_on_the_last_turn(table_of: Any):
    table = table_of([[0.5, 0.25], [0, 0, 2]], outcome=[0.25, 2], process=[[1, 0], [0, 0, 0]])
    exchanged = shuffled_reward(table, seed=3)
    assert exchanged.reward_N.tolist() == [0, 2, 0, 0, 0.75]
    assert exchanged.outcome_B.tolist() == [2, 0.25]
    assert exchanged.measured["settled_B"].tolist() == exchanged.total_B.tolist() == [2, 0.75]
    assert np.isnan(exchanged.process_N).all()
    assert not exchanged.measured["process_paid_N"].any()


@given(st.lists(st.integers(0, 4), min_size=2, max_size=12).filter(any), st.integers(0, 2**40))
def test_every_reward_is_paid_once_and_never_to_its_own_episode(table_of: Any, lengths: list[int], seed: int):
    numbers = np.arange(len(lengths), dtype=np.float32)
    rewards = [[0.0] * (length - 1) + [float(n)] if length else [] for n, length in enumerate(lengths)]
    table = table_of(rewards, outcome=numbers, **{"paid/won_B": numbers})
    exchanged = shuffled_reward(table, seed)
    donor_B = exchanged.total_B.astype(int)
    assert sorted(donor_B.tolist()) == list(range(len(lengths)))
    assert (donor_B != numbers).all()
    assert exchanged.outcome_B.tolist() == exchanged.measured["paid/won_B"].tolist() == donor_B.tolist()
    assert exchanged.total_B.tolist() == shuffled_reward(table, seed).total_B.tolist()


def test_credit_is_computed_after_rewards_are_exchanged(table_of: Any):
    """Credit of a shuffled reward compares siblings; shuffled credit is credit that was compared in another cohort."""
    table = table_of([[1], [1], [0], [0]], cohorts=[0, 0, 1, 1])
    found = {tuple(rloo(shuffled_reward(table, seed)).tolist()) for seed in range(20)}
    assert not rloo(table).any(), "no siblings differ, so no credit can be shuffled"
    assert {(1, -1, 1, -1), (-1, 1, -1, 1)} & found
    for credit_N in found:
        assert credit_N[0] == -credit_N[1]
        assert credit_N[2] == -credit_N[3]


def test_a_single_reward_cannot_be_exchanged(table_of: Any):
    with pytest.raises(ShapeError, match="cannot exchange its reward"):
        shuffled_reward(table_of([[0, 1]]), seed=0)
