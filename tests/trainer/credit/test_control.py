"""The negative controls keep everything but the link between a trajectory and its credit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.trainer.credit.control import random_reward, shuffle_between_trajectories
from turngate.types import Ending as End
from turngate.types import RewardEvent, Score, ScoredGroup, Task, Trajectory


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
    with pytest.raises(ShapeError, match="nobody to swap"):
        shuffle_between_trajectories(table_of([[0, 1]]), np.zeros(2, np.float32), 0)
    with pytest.raises(ShapeError, match=r"advantage_N has shape \(3,\), expected \(2,\)"):
        shuffle_between_trajectories(table_of([[0], [1]]), np.zeros(3, np.float32), 0)


def scored(n: int) -> ScoredGroup:
    task = Task(id="t", env_id="e", prompt="p")
    event = RewardEvent(name="won", kind="outcome", turn=None, value=1.0, weight=5.0)
    good = Score(ledger=(event,), reward_T=np.array([0, 0, 5], np.float32), outcome=5.0, usable=True)
    bad = Score(ledger=(), reward_T=np.zeros(3, np.float32), outcome=None, usable=False, problem="lost")
    trajectories = tuple(Trajectory(id=str(i), task=task, turns=(), ending=End.FINISHED, seed=0) for i in range(n))
    return ScoredGroup(task=task, trajectories=trajectories, scores=(*[good] * (n - 1), bad))


def test_random_rewards_are_fair_coins_that_say_what_they_are():
    groups = [scored(101), scored(101)]
    tossed = random_reward(groups, seed=7)
    coins = [score for group in tossed for score in group.scores if score.usable]
    assert len(coins) == 200
    assert {score.outcome for score in coins} == {0.0, 1.0}
    assert 70 <= sum(score.outcome for score in coins if score.outcome is not None) <= 130
    for score in coins:
        assert score.reward_T.tolist() == [0, 0, score.outcome]
        assert [event.name for event in score.ledger] == ["random_reward"]
        assert score.total == score.outcome
    assert [group.trajectories for group in tossed] == [group.trajectories for group in groups]
    assert tossed[0].scores[-1] is groups[0].scores[-1]


def test_random_rewards_depend_on_the_seed_alone():
    outcomes = [[s.outcome for s in random_reward([scored(40)], seed)[0].scores] for seed in (1, 1, 2)]
    assert outcomes[0] == outcomes[1] != outcomes[2]
