"""Several attempts at one task."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.attempts import co_rewards, majority, majority_rewards, weighted_vote, win_rate

answers = st.lists(st.sampled_from(["5", "7", "9", None]), max_size=8)


def test_voting():
    assert weighted_vote(["5", "7", "5"], [0.2, 0.5, 0.2]) == "7"
    assert weighted_vote(["5", "7"], [1.0, 1.0]) == "5"
    assert weighted_vote([None], [1.0]) is None
    with pytest.raises(ShapeError, match="1 answers but 2 scores"):
        weighted_vote(["5"], [1.0, 2.0])


def test_majorities():
    assert majority(["7", "5", "5", "7"]) == "7"
    assert majority(["5", "7"]) is majority([None, None]) is None
    assert majority(["5"], min_support=1) == "5"
    assert majority_rewards(["7", "7", "5", None]) == (1.0, 1.0, 0.0, None)
    assert majority_rewards(["5", "5", "7", None], absent=0.0) == (1.0, 1.0, 0.0, 0.0)
    assert majority_rewards(["5", "7", None], absent=0.0) == (None, None, None)
    with pytest.raises(ConfigError, match="min_support=0"):
        majority([], min_support=0)


def test_co_reward():
    assert co_rewards([5, 5, 7], [7, 7, 5]) == ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0))
    assert co_rewards([5, 5, 7], [7, 7, 5], faithful=True) == co_rewards([5, 5, 7], [7, 7, 5])
    assert co_rewards([5], [None]) == ((None,), (0.0,))
    assert co_rewards([5], [None], faithful=True) == ((0.0,), (0.0,))


@settings(max_examples=60, deadline=None)
@given(answers)
def test_rewards_go_to_equal_answers_alike_and_to_enough_of_them(given_answers):
    rewards = majority_rewards(given_answers, absent=0.0)
    if rewards and rewards[0] is not None:
        assert sum(rewards) >= 2
        assert sum(rewards) == max(given_answers.count(answer) for answer in given_answers if answer is not None)
    by_answer = dict(zip(given_answers, rewards, strict=True))
    assert [by_answer[answer] for answer in given_answers] == list(rewards)


# --- who is better than whom ------------------------------------------------------------------------------------------


def table(rows):
    won = np.array(rows, float)
    return np.where(np.tri(len(won), k=-1, dtype=bool), 1 - won.T, won)


def test_three_wins_of_four():
    won = table([[0, 1, 1, 1, 0]] + [[0] * 4 + [0.5]] * 4)
    assert win_rate(won)[0] == pytest.approx(0.75, abs=1e-5)


def test_a_cycle_of_preferences_puts_nobody_ahead():
    np.testing.assert_allclose(win_rate([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), [0.5, 0.5, 0.5], atol=1e-12)


def test_the_worked_example():
    won = [[0, 1, 1, 1], [0, 0, 1, 0.5], [0, 0, 0, 1], [0, 0.5, 0, 0]]
    np.testing.assert_allclose(win_rate(won), [1, 0.5, 1 / 3, 1 / 6], atol=1e-12)
    z_N = (win_rate(won) - 0.5) / np.std(win_rate(won), ddof=1)
    np.testing.assert_allclose(z_N, [1.388730, 0, -0.462910, -0.925820], atol=1e-6)


def test_who_was_not_compared_has_no_reward():
    nan = math.nan
    np.testing.assert_allclose(win_rate([[nan, 1, nan], [0, nan, nan], [nan, nan, nan]]), [1, 0, nan])
    assert np.isnan(win_rate([[0.0]])).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=n * n, max_size=n * n)))
def test_full_comparisons_are_shares_with_a_mean_of_one_half(cells):
    size = math.isqrt(len(cells))
    rate = win_rate(table(np.reshape(cells, (size, size))))
    assert ((rate >= 0) & (rate <= 1)).all()
    assert rate.mean() == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("bad", [[[0, 1], [1, 0]], [[0, 2], [-1, 0]], [[0, 1, 0]], [[0, 1], [math.nan, 0]]])
def test_tables_that_contradict_themselves(bad):
    with pytest.raises(ShapeError, match="won_NN"):
        win_rate(bad)
