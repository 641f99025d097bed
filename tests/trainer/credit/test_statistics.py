"""The one statistics core: what a z-score does to rewards, with one answer for each degenerate case."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near
from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import GroupStatistics, check_scale, group

quick = settings(max_examples=25, deadline=None)
pairs = st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=1, max_size=20)


def stats_of(values: Any, groups: Any, weights: Any = None) -> GroupStatistics:
    weight_M = None if weights is None else np.array(weights, np.float64)
    return group(np.array(values, np.float64), np.array(groups, np.int64), weight_M=weight_M)


def z(values: Any, groups: Any, eps: float = 0.0, floor: float = 0.0) -> Any:
    return stats_of(values, groups).z_M(eps=eps, min_std=floor)


def z_by_hand(values: list[float], groups: list[int], eps: float = 1e-6, floor: float = 0.0) -> list[float]:
    """The definition in plain loops."""
    result = []
    for own, name in zip(values, groups, strict=True):
        known = [v for v, g in zip(values, groups, strict=True) if g == name]
        mean = sum(known) / len(known)
        if len(known) < 2 or max(known) - min(known) <= 1e-6 * max(1.0, abs(mean)):
            result.append(0.0)
            continue
        std = math.sqrt(sum((v - mean) ** 2 for v in known) / (len(known) - 1))
        result.append((own - mean) / (max(std, floor) + eps))
    return result


@quick
@given(pairs, st.sampled_from([0.0, 0.05, 1.0]))
def test_z_is_its_definition(rows: list[tuple[float, int]], floor: float):
    values, groups = [v for v, _ in rows], [g for _, g in rows]
    assert z(values, groups, eps=1e-6, floor=floor).tolist() == near(z_by_hand(values, groups, floor=floor), 1e-9)


@quick
@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(rows: list[tuple[float, int]], random: Any):
    order = list(range(len(rows)))
    random.shuffle(order)
    values, groups = np.array([v for v, _ in rows]), np.array([g for _, g in rows])
    assert z(values[order], groups[order]).tolist() == near(z(values, groups)[order].tolist(), 1e-7)


def test_scale_and_offset_of_a_whole_group_cancel():
    small = np.array([1.05, 0.95, 0.05, -0.05])
    expected = [0.947900, 0.775555, -0.775555, -0.947900]
    assert z(small, [0] * 4).tolist() == near(expected)
    assert z(2.398 * small + 7, [0] * 4).tolist() == near(expected)


def test_one_open_rollout_carries_no_process_information():
    expected = [1.5, -0.5, -0.5, -0.5]
    assert z([1.5, 0, 0, 0], [0] * 4).tolist() == near(expected)
    assert z([1, 0, 0, 0], [0] * 4).tolist() == near(expected)


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_a_tie_breaker_acts_at_full_strength_whatever_its_weight(weight: float):
    rewards = 1 + weight * np.array([0.1, 0.2, 0.3, 0.4])
    assert z(rewards, [0] * 4).tolist() == near([-1.161895, -0.387298, 0.387298, 1.161895])


GRID = st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=2, max_size=8)


@quick
@given(GRID, st.floats(0.1, 10), st.floats(-5, 5))
def test_i4_any_scale_and_offset_of_a_group_cancels(values: list[float], scale: float, offset: float):
    moved = [scale * value + offset for value in values]
    zeros = [0] * len(values)
    assert z(moved, zeros).tolist() == near(z(values, zeros).tolist(), 1e-7)


@quick
@given(st.integers(2, 12), st.integers(0, 11), st.floats(0, 5))
def test_i5_what_a_single_open_rollout_earns_on_top_changes_nothing(n: int, place: int, bonus: float):
    """Two of them are ranked: then a bonus does show."""
    outcome = np.zeros(n)
    outcome[place % n] = 1.0
    paid = outcome * (1 + bonus)
    assert z(paid, [0] * n).tolist() == near(z(outcome, [0] * n).tolist(), 1e-7)
    two, unequal = np.append(outcome, 1.0), np.append(paid + 0.5 * outcome, 1.0)
    assert z(unequal, [0] * (n + 1)).tolist() != near(z(two, [0] * (n + 1)).tolist())


@quick
@given(
    st.floats(0.05, 0.9), st.integers(1, 8), st.integers(1, 8), st.lists(st.floats(0.95, 1.0), min_size=1, max_size=9)
)
def test_i6_pooled_centring_taxes_every_turn_below_the_mean_and_a_mean_over_turns_does_not(
    score: float, n: int, more: int, pool: list[float]
):
    """Two episodes of n and n + more turns with the same score in each turn, in a pool whose mean is higher."""
    values = [score] * (2 * n + more) + pool
    centred = stats_of(values, [0] * len(values)).centred_M
    short, long = centred[:n], centred[n : 2 * n + more]
    tax = np.mean(values) - score
    assert short.sum() - long.sum() == near(more * tax, 1e-7)
    assert tax > 0
    assert short.mean() == near(long.mean(), 1e-9)


@quick
@given(GRID, st.floats(0.01, 1.0))
def test_i7_among_equal_outcomes_the_weight_of_a_tie_breaker_cancels_and_a_floor_bounds_it(
    process: list[float], weight: float
):
    zeros, paid = [0] * len(process), [1 + weight * value for value in process]
    assert z(paid, zeros).tolist() == near(z(process, zeros).tolist(), 1e-6)
    spread = weight * (max(process) - min(process))
    assert np.abs(z(paid, zeros, floor=0.5)).max() <= spread / 0.5 + 1e-9


def test_a_floor_keeps_a_tie_breaker_small():
    rewards = 1 + 0.01 * np.array([0.1, 0.2, 0.3, 0.4])
    assert z(rewards, [0] * 4, floor=0.05).tolist() == near([-0.03, -0.01, 0.01, 0.03])


def test_pooled_centring_taxes_length():
    short, long = [0.4] * 2, [0.4] * 6
    pool = [0.6] * 8  # a pool of mean 0.5 together with the eight turns above
    centred = stats_of(short + long + pool, [0] * 16).centred_M
    assert (centred[:2].sum(), centred[2:8].sum()) == near((-0.2, -0.6))


@pytest.mark.parametrize(("n", "reward"), [(12, 0.9), (7, 0.7)])
def test_equal_float32_rewards_are_exactly_at_their_mean(n: int, reward: float):
    values = np.full(n, reward, np.float32)
    assert z(values, np.zeros(n, np.int64), eps=1e-8).tolist() == [0.0] * n
    assert stats_of(values, np.zeros(n, np.int64)).degenerate_G.tolist() == [True]


def test_the_snap_is_relative_to_a_large_mean_and_absolute_near_zero():
    assert z([1e6, 1e6 + 0.5], [0, 0]).tolist() == [0.0, 0.0]
    assert z([0.0, 9e-7], [0, 0]).tolist() == [0.0, 0.0]
    assert z([0.0, 2e-6], [0, 0]).tolist() == near([-0.707107, 0.707107])


def test_weights_count_a_value_that_often():
    values, weights = [2.0, 1.0, 0.0], [1, 3, 2]
    repeated = np.repeat(values, weights)
    stats = stats_of(values, [0] * 3, weights)
    expected = (np.array(values) - repeated.mean()) / repeated.std(ddof=1)
    assert stats.z_M(eps=0).tolist() == near(expected.tolist())


def test_a_value_of_weight_zero_has_no_say():
    stats = stats_of([1.0, 0.0, 100.0], [0] * 3, [1, 1, 0])
    assert stats.mean_G.tolist() == [0.5]
    assert stats.centred_M.tolist() == [0.5, -0.5, 99.5]


def test_groups_without_members_do_not_matter():
    assert z([1.0, 0.0], [5, 5]).tolist() == near([0.707107, -0.707107])
    assert z([], np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("bad", [{"eps": -1.0}, {"eps": math.nan}, {"eps": 0.0, "ddof": 2}])
def test_settings_that_cannot_be_are_refused(bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="rule needs eps ≥ 0 and ddof 0 or 1"):
        check_scale("rule", **bad)
