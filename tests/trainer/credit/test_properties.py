"""Every estimator against plain loops on random tables, and the laws that all of them obey."""

from collections.abc import Callable
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.credit_rules import CREDITS
from turngate.trainer.credit.gigpo import gigpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.returns import returns
from turngate.trainer.credit.rloo import rloo

Episode = tuple[int, list[tuple[int, float]]]  # cohort, then (state, reward) per turn
NAMES = ["gigpo", "grpo", "returns", "rloo"]
TIGHT = {"rtol": 1e-5, "atol": 1e-5}

REWARD = st.integers(-8, 8).map(lambda k: k / 4)
TURN = st.tuples(st.integers(-1, 3), REWARD)
BATCH = st.lists(st.tuples(st.integers(0, 3), st.lists(TURN, min_size=1, max_size=6)), min_size=1, max_size=12)


def tabled(table_of: Callable[..., Any], batch: list[Episode]) -> Any:
    numbers: dict[int, int] = {}
    return table_of(
        [[reward for _, reward in turns] for _, turns in batch],
        cohorts=[numbers.setdefault(cohort, len(numbers)) for cohort, _ in batch],
        states=[[state for state, _ in turns] for _, turns in batch],
    )


def to_go(turns: list[tuple[int, float]], start: int, gamma: float) -> float:
    return sum(gamma ** (k - start) * turns[k][1] for k in range(start, len(turns)))


def centred(value: float, members: list[float]) -> float:
    return 0.0 if len(members) < 2 or max(members) - min(members) < 1e-9 else value - fmean(members)


def standard(value: float, members: list[float]) -> float:
    difference = centred(value, members)
    return difference / (stdev(members) + 1e-6) if difference else 0.0


def grpo_slowly(batch: list[Episode], rule: Callable[[float, list[float]], float]) -> list[float]:
    result = []
    for cohort, turns in batch:
        siblings = [to_go(others, 0, 1.0) for other, others in batch if other == cohort]
        result += [rule(to_go(turns, 0, 1.0), siblings)] * len(turns)
    return result


def returns_slowly(batch: list[Episode], gamma: float) -> list[float]:
    result = []
    for i, (cohort, turns) in enumerate(batch):
        others = [to_go(their, 0, gamma) for j, (other, their) in enumerate(batch) if other == cohort and i != j]
        result += [to_go(turns, t, gamma) - fmean(others) if others else 0.0 for t in range(len(turns))]
    return result


def rloo_slowly(batch: list[Episode]) -> list[float]:
    to_go_N = returns_slowly(batch, 1.0)
    return [to_go_N[_start(batch, i)] for i, (_, turns) in enumerate(batch) for _ in turns]


def _start(batch: list[Episode], i: int) -> int:
    return sum(len(turns) for _, turns in batch[:i])


def gigpo_slowly(batch: list[Episode], rule: Callable[[float, list[float]], float], gamma: float) -> list[float]:
    result = grpo_slowly(batch, rule)
    row = 0
    for cohort, turns in batch:
        for t, (state, _) in enumerate(turns):
            same = [
                to_go(their, k, gamma)
                for other, their in batch
                for k in range(len(their))
                if other == cohort and their[k][0] == state
            ]
            result[row] += 0.7 * rule(to_go(turns, t, gamma), same) if state >= 0 else 0.0
            row += 1
    return result


@given(BATCH)
def test_against_plain_loops(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, batch)
    np.testing.assert_allclose(grpo(table), grpo_slowly(batch, standard), **TIGHT)
    np.testing.assert_allclose(grpo(table, std=False), grpo_slowly(batch, centred), **TIGHT)
    np.testing.assert_allclose(rloo(table), rloo_slowly(batch), **TIGHT)
    for gamma in (1.0, 0.5):
        np.testing.assert_allclose(returns(table, gamma=gamma), returns_slowly(batch, gamma), **TIGHT)
        slow = gigpo_slowly(batch, centred, gamma)
        np.testing.assert_allclose(gigpo(table, gamma=gamma, omega=0.7), slow, **TIGHT)
    slow = gigpo_slowly(batch, standard, 0.5)
    np.testing.assert_allclose(gigpo(table, gamma=0.5, omega=0.7, mode="mean_std_norm"), slow, **TIGHT)


@pytest.mark.parametrize("name", NAMES)
@given(batch=BATCH, seed=st.integers(0, 2**32))
def test_the_order_of_trajectories_does_not_matter(table_of: Any, name: str, batch: list[Episode], seed: int):
    order = np.random.default_rng(seed).permutation(len(batch)).tolist()
    advantage_N = CREDITS[name](tabled(table_of, batch))
    rows = [_start(batch, i) + t for i in order for t in range(len(batch[i][1]))]
    shuffled = CREDITS[name](tabled(table_of, [batch[i] for i in order]))
    np.testing.assert_allclose(shuffled, advantage_N[rows], **TIGHT)


@pytest.mark.parametrize("name", NAMES)
@given(batch=BATCH)
def test_nothing_leaks_across_cohorts(table_of: Any, name: str, batch: list[Episode]):
    advantage_N = CREDITS[name](tabled(table_of, batch))
    cohort = batch[0][0]
    alone = CREDITS[name](tabled(table_of, [episode for episode in batch if episode[0] == cohort]))
    rows = [_start(batch, i) + t for i, (c, turns) in enumerate(batch) if c == cohort for t in range(len(turns))]
    np.testing.assert_allclose(alone, advantage_N[rows], **TIGHT)


@pytest.mark.parametrize("credit", [grpo, rloo, gigpo], ids=lambda credit: credit.__name__)
@given(batch=BATCH)
def test_trajectories_of_a_cohort_sum_to_zero(table_of: Any, credit: Any, batch: list[Episode]):
    """The episode part; the step part of gigpo is switched off because it sums to zero per state instead."""
    settings = {"omega": 0.0} if credit is gigpo else {}
    advantage_N = credit(tabled(table_of, batch), **settings)
    for cohort in {episode[0] for episode in batch}:
        firsts = [_start(batch, i) for i, episode in enumerate(batch) if episode[0] == cohort]
        assert advantage_N[firsts].sum() == pytest.approx(0.0, abs=1e-4)


@given(BATCH)
def test_one_turn_episodes_make_returns_equal_to_rloo(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, [(cohort, turns[:1]) for cohort, turns in batch])
    np.testing.assert_allclose(returns(table), rloo(table), **TIGHT)


@given(BATCH)
def test_rewards_paid_at_the_end_make_returns_equal_to_rloo(table_of: Any, batch: list[Episode]):
    late = [
        (cohort, [(s, r if t == len(turns) - 1 else 0.0) for t, (s, r) in enumerate(turns)]) for cohort, turns in batch
    ]
    table = tabled(table_of, late)
    np.testing.assert_allclose(returns(table), rloo(table), **TIGHT)


@given(BATCH)
def test_unknown_states_leave_gigpo_the_episode_part(table_of: Any, batch: list[Episode]):
    table = tabled(table_of, [(cohort, [(-1, reward) for _, reward in turns]) for cohort, turns in batch])
    np.testing.assert_array_equal(gigpo(table), grpo(table, std=False))


@given(BATCH)
def test_constant_shifts_of_totals_change_no_baseline_method(table_of: Any, batch: list[Episode]):
    shifted = [(cohort, [*turns[:-1], (turns[-1][0], turns[-1][1] + 3.0)]) for cohort, turns in batch]
    for credit in (grpo, rloo):
        before, after = credit(tabled(table_of, batch)), credit(tabled(table_of, shifted))
        np.testing.assert_allclose(after, before, **TIGHT)
