"""Credit per token as functions of flat arrays: GAE, bi-level GAE, REINFORCE++ and prefix weights."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.bilevel_gae import bilevel_gae
from turngate.trainer.credit.token_credit import (
    bilevel_token_gae,
    prefix_counts,
    reinforce_plus_plus_tokens,
    token_gae,
    whiten,
)
from turngate.trainer.credit.turn_gae import turn_gae

NUMBER = st.integers(-8, 8).map(lambda k: k / 4)


def f(*values: float) -> Any:
    return np.array(values, np.float32)


def i(*values: int) -> Any:
    return np.array(values, np.int32)


def test_token_gae_worked_example():
    """γ=1, λ=0.95; returns are taken before any whitening."""
    advantage_S, return_S = token_gae(f(0, 0, 1), f(0.5, 0.6, 0.7), i(0, 0, 0))
    np.testing.assert_allclose(advantage_S, [0.46575, 0.385, 0.3], atol=1e-5)
    np.testing.assert_allclose(return_S, [0.96575, 0.985, 1.0], atol=1e-5)


def test_an_observation_token_must_be_left_out():
    """With its value 0.9 counted as a step, the credit before it is another."""
    with_it, _ = token_gae(f(0, 0, 0, 1), f(0.5, 0.6, 0.9, 0.7), i(0, 0, 0, 0))
    np.testing.assert_allclose(with_it, [0.461713, 0.380750, 0.085, 0.3], atol=1e-5)


@given(st.lists(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=9), min_size=1, max_size=5))
@settings(max_examples=40)
def test_token_gae_against_the_recursion(segments: list[list[tuple[float, float]]]):
    expected: list[float] = []
    for number, tokens in enumerate(segments):
        following, after, advantage = 0.0, float(number), []
        for reward, value in reversed(tokens):
            following = reward + 0.9 * after - value + 0.9 * 0.8 * following
            advantage.append(following)
            after = value
        expected += reversed(advantage)
    reward_S, value_S = (f(*(token[k] for tokens in segments for token in tokens)) for k in (0, 1))
    segment_S = i(*(number for number, tokens in enumerate(segments) for _ in tokens))
    bootstrap_B = f(*range(len(segments)))
    advantage_S, _ = token_gae(reward_S, value_S, segment_S, gamma=0.9, lam=0.8, bootstrap_B=bootstrap_B)
    np.testing.assert_allclose(advantage_S, expected, atol=1e-4)


def test_bilevel_worked_example():
    """Two turns of two tokens, rewards 0 and 1, γ_h=0.95: turns get 0.45 and 0.3."""
    advantage_S = bilevel_token_gae(f(0, 1), i(0, 0), f(0.4, 0.5, 0.6, 0.7), i(0, 0, 1, 1))
    np.testing.assert_allclose(advantage_S, [0.55, 0.45, 0.4, 0.3], atol=1e-5)


TURN = st.tuples(NUMBER, st.lists(NUMBER, min_size=1, max_size=4))


@given(st.lists(st.lists(TURN, min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=40)
def test_bilevel_against_the_definition(batch: list[list[Any]]):
    gamma_turn, gamma, lam = 0.9, 0.95, 0.8
    expected: list[float] = []
    for number, turns in enumerate(batch):
        high, after, per_turn = 0.0, float(number), []
        for reward, values in reversed(turns):
            high = reward + gamma_turn * after - values[-1] + gamma_turn * lam * high
            after = values[-1]
            tokens = [high]
            for j in range(len(values) - 2, -1, -1):
                tokens.append(gamma * values[j + 1] - values[j] + gamma * lam * tokens[-1])
            per_turn.append(tokens[::-1])
        expected += [token for tokens in reversed(per_turn) for token in tokens]
    rows = [turn for turns in batch for turn in turns]
    advantage_S = bilevel_token_gae(
        f(*(reward for reward, _ in rows)),
        i(*(number for number, turns in enumerate(batch) for _ in turns)),
        f(*(value for _, values in rows for value in values)),
        i(*(row for row, (_, values) in enumerate(rows) for _ in values)),
        gamma_turn=gamma_turn,
        gamma=gamma,
        lam=lam,
        bootstrap_B=f(*range(len(batch))),
    )
    np.testing.assert_allclose(advantage_S, expected, atol=1e-4)


def test_turns_of_one_token_make_it_turn_gae(table_of: Any):
    values = [0.5, 0.25, 1.0, 0.0, 0.75]
    columns = {"value_N": values, "value_S": values, "turn_S": [0, 1, 2, 3, 4], "bootstrap_B": [0.0, 0.5]}
    table = table_of([[0, 0.5, 1], [1, 0]], **columns)
    credit = bilevel_gae(table, gamma_turn=0.9, lam=0.8)
    np.testing.assert_allclose(credit.advantage_S, turn_gae(table, gamma=0.9, lam=0.8), atol=1e-6)


def test_a_turn_that_was_paid_nothing_is_still_a_turn():
    """Finding turn ends by rewards that are not 0 would give its tokens one long turn."""
    paid_late = bilevel_token_gae(f(0, 1), i(0, 0), f(0, 0), i(0, 1), gamma_turn=0.5)
    np.testing.assert_allclose(paid_late, [0.5, 1.0], atol=1e-6)


def test_a_turn_without_trained_tokens_hands_its_reward_back(table_of: Any):
    """Rows 0 and 2 have no tokens: row 0 came before any decision, row 2 follows from row 1, row 3 is another's."""
    table = table_of([[9, 1, 2], [4]], value_S=[0.0, 0.0], turn_S=[1, 3])
    assert bilevel_gae(table).per_turn(4).tolist() == [0, 3, 0, 4]
    table = table_of([[1], [9, 4]], value_S=[0.0, 0.0], turn_S=[0, 2])
    assert bilevel_gae(table).per_turn(3).tolist() == [1, 0, 4]


def test_reinforce_plus_plus_tokens_whitens_the_returns():
    advantage_S = reinforce_plus_plus_tokens(f(0, 1, 0, 0), i(0, 0, 1, 1), gamma=0.5)
    to_go = np.array([0.5, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(advantage_S, (to_go - to_go.mean()) / to_go.std(ddof=1), atol=1e-5)
    assert not reinforce_plus_plus_tokens(f(*[0.9] * 12), i(*range(12))).any()


def test_shared_prefixes_count_once():
    """Two of four rollouts agree on tokens 0 to 4."""
    ids = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 9], [8, 2, 3], [7, 2, 3, 4]]
    count_L = prefix_counts(
        i(*(token for row in ids for token in row)), i(*(k for k, row in enumerate(ids) for _ in row)), i(0, 0, 0, 0)
    )
    assert count_L.tolist() == [2] * 5 + [1, 1] + [2] * 5 + [1] + [1] * 7


def test_duplicates_share_everything_and_other_cohorts_nothing():
    assert prefix_counts(i(1, 2, 1, 2), i(0, 0, 1, 1), i(0, 0)).tolist() == [2] * 4
    assert prefix_counts(i(1, 2, 1, 2), i(0, 0, 1, 1), i(0, 1)).tolist() == [1] * 4


def test_a_trajectory_without_tokens_is_left_out():
    assert prefix_counts(i(1, 2, 1, 3), i(1, 1, 3, 3), i(0, 0, 0, 0, 0)).tolist() == [2, 1, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2), min_size=1, max_size=5)), min_size=1))
@settings(max_examples=40)
def test_prefix_counts_against_plain_loops(rollouts: list[tuple[int, list[int]]]):
    expected = [
        sum(c == cohort and other[: j + 1] == ids[: j + 1] for c, other in rollouts)
        for cohort, ids in rollouts
        for j in range(len(ids))
    ]
    count_L = prefix_counts(
        i(*(token for _, ids in rollouts for token in ids)),
        i(*(k for k, (_, ids) in enumerate(rollouts) for _ in ids)),
        i(*(cohort for cohort, _ in rollouts)),
    )
    assert count_L.tolist() == expected


@pytest.mark.parametrize(("value", "count"), [(0.9, 12), (0.7, 7), (1e6 + 0.1, 9)])
def test_equal_values_whiten_to_zero(value: float, count: int):
    values = np.full(count, np.float32(value)).astype(np.float64)
    assert not whiten(values, np.ones(count), eps=0.0).any()


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ((f(0, 1), f(0), i(0, 0)), r"value_S has shape \(1,\), expected \(2,\)"),
        ((f(0, 1), f(0, 1), i(0)), r"segment_S has shape \(1,\), expected \(2,\)"),
        ((f(), f(), i()), "reward_S is empty"),
        ((f(0, np.inf), f(0, 0), i(0, 0)), "reward_S is inf at 1"),
        ((f(0, 0), f(np.nan, 0), i(0, 0)), "value_S is nan at 0"),
        ((f(0, 0), f(0, 0), i(1, 0)), "segment_S must start at 0 or above and never decrease"),
        ((np.zeros((2, 1), np.float32), f(0, 0), i(0, 0)), "reward_S has shape"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: Any, match: str):
    with pytest.raises(ShapeError, match=match):
        token_gae(*arrays)


def test_bad_bootstraps_rows_and_segments_are_refused():
    with pytest.raises(ShapeError, match=r"bootstrap_B has shape \(1,\), expected \(2,\)"):
        token_gae(f(0, 0), f(0, 0), i(0, 1), bootstrap_B=f(1))
    with pytest.raises(ShapeError, match="bootstrap_B is inf"):
        token_gae(f(0, 0), f(0, 0), i(0, 1), bootstrap_B=f(1, np.inf))
    with pytest.raises(ShapeError, match="turn_S holds 2"):
        bilevel_token_gae(f(0, 1), i(0, 0), f(0, 0), i(0, 2))
    with pytest.raises(ShapeError, match="segment_L holds 2, but cohort_B has 2 entries"):
        prefix_counts(i(1, 2), i(0, 2), i(0, 0))
    with pytest.raises(ConfigError, match="lam is 2"):
        token_gae(f(0), f(0), i(0), lam=2)
