"""Columns are checked once; statistics per group have one answer for each degenerate case."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards import columns
from turngate.rewards.statistics import group_stats, z_scores

NAN = math.nan
EXACT = {"eps": 0.0, "ddof": 1}
quick = settings(max_examples=25, deadline=None)
value = st.one_of(st.just(NAN), st.floats(-5, 5, allow_nan=False))
pairs = st.lists(st.tuples(value, st.integers(0, 3)), min_size=1, max_size=20)


def near(expected: Any, tolerance: float = 1e-5) -> Any:
    return pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)


def z_by_hand(values: list[float], groups: list[int], eps: float = 1e-6, floor: float = 0.0) -> list[float]:
    """The definition in plain loops."""
    result = []
    for own, name in zip(values, groups, strict=True):
        known = [v for v, g in zip(values, groups, strict=True) if g == name and not math.isnan(v)]
        if math.isnan(own):
            result.append(NAN)
            continue
        mean = sum(known) / len(known)
        if len(known) < 2 or max(known) - min(known) <= 1e-6 * max(1.0, abs(mean)):
            result.append(0.0)
            continue
        std = math.sqrt(sum((v - mean) ** 2 for v in known) / (len(known) - 1))
        result.append((own - mean) / (max(std, floor) + eps))
    return result


# --- z-scores --------------------------------------------------------------------------------------------------------


@quick
@given(pairs, st.sampled_from([0.0, 0.05, 1.0]))
def test_z_is_its_definition(rows: list[tuple[float, int]], floor: float):
    values, groups = [v for v, _ in rows], [g for _, g in rows]
    assert z_scores(values, groups, std_floor=floor).tolist() == near(z_by_hand(values, groups, floor=floor), 1e-9)


@quick
@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(rows: list[tuple[float, int]], random: Any):
    order = list(range(len(rows)))
    random.shuffle(order)
    values, groups = np.array([v for v, _ in rows]), np.array([g for _, g in rows])
    assert z_scores(values[order], groups[order]).tolist() == near(z_scores(values, groups)[order].tolist(), 1e-7)


def test_scale_and_offset_of_a_whole_group_cancel():
    small = np.array([1.05, 0.95, 0.05, -0.05])
    expected = [0.947900, 0.775555, -0.775555, -0.947900]
    assert z_scores(small, [0] * 4, **EXACT).tolist() == near(expected)
    assert z_scores(2.398 * small + 7, [0] * 4, **EXACT).tolist() == near(expected)


def test_one_open_rollout_carries_no_process_information():
    expected = [1.5, -0.5, -0.5, -0.5]
    assert z_scores([1.5, 0, 0, 0], [0] * 4, **EXACT).tolist() == near(expected)
    assert z_scores([1, 0, 0, 0], [0] * 4, **EXACT).tolist() == near(expected)


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_a_tie_breaker_acts_at_full_strength_whatever_its_weight(weight: float):
    rewards = 1 + weight * np.array([0.1, 0.2, 0.3, 0.4])
    assert z_scores(rewards, [0] * 4, **EXACT).tolist() == near([-1.161895, -0.387298, 0.387298, 1.161895])


GRID = st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=2, max_size=8)


@quick
@given(GRID, st.floats(0.1, 10), st.floats(-5, 5))
def test_i4_any_scale_and_offset_of_a_group_cancels(values: list[float], scale: float, offset: float):
    moved = [scale * value + offset for value in values]
    zeros = [0] * len(values)
    assert z_scores(moved, zeros, **EXACT).tolist() == near(z_scores(values, zeros, **EXACT).tolist(), 1e-7)


@quick
@given(st.integers(2, 12), st.integers(0, 11), st.floats(0, 5))
def test_i5_what_a_single_open_rollout_earns_on_top_changes_nothing(n: int, place: int, bonus: float):
    """Two of them are ranked: then a bonus does show."""
    outcome = np.zeros(n)
    outcome[place % n] = 1.0
    paid = outcome * (1 + bonus)
    assert z_scores(paid, [0] * n, **EXACT).tolist() == near(z_scores(outcome, [0] * n, **EXACT).tolist(), 1e-7)
    two, unequal = np.append(outcome, 1.0), np.append(paid + 0.5 * outcome, 1.0)
    assert z_scores(unequal, [0] * (n + 1), **EXACT).tolist() != near(z_scores(two, [0] * (n + 1), **EXACT).tolist())


@quick
@given(
    st.floats(0.05, 0.9), st.integers(1, 8), st.integers(1, 8), st.lists(st.floats(0.95, 1.0), min_size=1, max_size=9)
)
def test_i6_pooled_centring_taxes_every_turn_below_the_mean_and_a_mean_over_turns_does_not(
    score: float, n: int, more: int, pool: list[float]
):
    """Two episodes of n and n + more turns with the same score in each turn, in a pool whose mean is higher."""
    values = [score] * (2 * n + more) + pool
    centred = group_stats(values, [0] * len(values)).centred_M
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
    assert z_scores(paid, zeros, **EXACT).tolist() == near(z_scores(process, zeros, **EXACT).tolist(), 1e-6)
    spread = weight * (max(process) - min(process))
    assert np.abs(z_scores(paid, zeros, std_floor=0.5, **EXACT)).max() <= spread / 0.5 + 1e-9


def test_a_floor_keeps_a_tie_breaker_small():
    rewards = 1 + 0.01 * np.array([0.1, 0.2, 0.3, 0.4])
    z = z_scores(rewards, [0] * 4, std_floor=0.05, **EXACT)
    assert z.tolist() == near([-0.03, -0.01, 0.01, 0.03])


def test_pooled_centring_taxes_length():
    short, long = [0.4] * 2, [0.4] * 6
    pool = [0.6] * 8  # a pool of mean 0.5 together with the eight turns above
    centred = group_stats(short + long + pool, [0] * 16).centred_M
    assert (centred[:2].sum(), centred[2:8].sum()) == near((-0.2, -0.6))


@pytest.mark.parametrize(("n", "reward"), [(12, 0.9), (7, 0.7)])
def test_equal_float32_rewards_are_exactly_at_their_mean(n: int, reward: float):
    values = np.full(n, reward, np.float32)
    assert z_scores(values, np.zeros(n, np.int64), eps=1e-8).tolist() == [0.0] * n
    assert group_stats(values, np.zeros(n, np.int64)).degenerate_G.tolist() == [True]


def test_the_snap_is_relative_to_a_large_mean_and_absolute_near_zero():
    assert z_scores([1e6, 1e6 + 0.5], [0, 0]).tolist() == [0.0, 0.0]
    assert z_scores([0.0, 9e-7], [0, 0]).tolist() == [0.0, 0.0]
    assert z_scores([0.0, 2e-6], [0, 0], **EXACT).tolist() == near([-0.707107, 0.707107])


def test_missing_verdicts_stay_missing_and_leave_mean_and_std_alone():
    with_gap = z_scores([1, NAN, 0, 0.5], [0] * 4, **EXACT)
    assert np.isnan(with_gap[1])
    assert with_gap[[0, 2, 3]].tolist() == near(z_scores([1, 0, 0.5], [0] * 3, **EXACT).tolist())
    assert np.isnan(z_scores([NAN, NAN], [0, 0])).all()


def test_a_lone_member_follows_the_policy():
    values, groups = [5.0, 1.0, 0.0, NAN], [1, 0, 0, 1]
    assert z_scores(values, groups)[0] == 0.0
    assert z_scores(values, groups, singleton="raw")[0] == 5.0
    mean, std = 2.0, math.sqrt(7.0)
    batch = z_scores(values, groups, singleton="batch_mean", **EXACT)
    assert batch.tolist() == near([(5 - mean) / std, 0.707107, -0.707107, NAN])
    assert z_scores([3.0], [0], singleton="batch_mean").tolist() == [0.0]


def test_weights_count_a_value_that_often():
    values, weights = [2.0, 1.0, 0.0], [1, 3, 2]
    repeated = np.repeat(values, weights)
    stats = group_stats(values, [0] * 3, weight_M=weights)
    expected = (np.array(values) - repeated.mean()) / repeated.std(ddof=1)
    assert stats.z_M(eps=0).tolist() == near(expected.tolist())


def test_a_value_of_weight_zero_has_no_say():
    stats = group_stats([1.0, 0.0, 100.0], [0] * 3, weight_M=[1, 1, 0])
    assert stats.mean_G.tolist() == [0.5]
    assert stats.centred_M.tolist() == [0.5, -0.5, 99.5]


def test_groups_without_members_do_not_matter():
    assert z_scores([1.0, 0.0], [5, 5], **EXACT).tolist() == near([0.707107, -0.707107])
    assert z_scores([], np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("arguments", "settings_", "error", "words"),
    [
        (([1.0, math.inf], [0, 0]), {}, ShapeError, r"values_M\[1\] is inf"),
        (([1.0], [0, 0]), {}, ShapeError, r"group_M has shape \(2,\), expected \(1,\)"),
        (([1.0], [-1]), {}, ShapeError, "counted from 0"),
        (([1.0], [0.5]), {}, ShapeError, "whole numbers"),
        (([1.0], [0]), {"eps": -1.0}, ConfigError, "eps=-1.0"),
        (([1.0], [0]), {"ddof": 2}, ConfigError, "ddof=2"),
        (([1.0], [0]), {"std_floor": NAN}, ConfigError, "std_floor=nan"),
        (([1.0], [0]), {"singleton": "none"}, ConfigError, "'none'"),
    ],
)
def test_bad_input_raises(arguments: Any, settings_: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        z_scores(*arguments, **settings_)


def test_fractional_weights_raise():
    with pytest.raises(ShapeError, match="whole numbers"):
        group_stats([1.0, 2.0], [0, 0], weight_M=[0.5, 1])


# --- columns ---------------------------------------------------------------------------------------------------------

rows = st.lists(st.lists(value, min_size=0, max_size=7), min_size=1, max_size=5)


def flat(rows: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    traj = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return np.array([v for row in rows for v in row], np.float64), traj


@quick
@given(rows, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_sums_and_minima_from_each_turn_on(rows: list[list[float]], gamma: float):
    x, traj = flat([[0.0 if math.isnan(v) else v for v in row] for row in rows])
    to_go, so_far, low = [], [], []
    for row in [[0.0 if math.isnan(v) else v for v in row] for row in rows]:
        to_go += [sum(gamma**k * v for k, v in enumerate(row[t:])) for t in range(len(row))]
        so_far += [sum(row[: t + 1]) for t in range(len(row))]
        low += [min(row[t:]) for t in range(len(row))]
    assert columns.suffix_sum(x, traj, gamma).tolist() == near(to_go, 1e-9)
    assert columns.prefix_sum(x, traj).tolist() == near(so_far, 1e-9)
    assert columns.suffix_min(x, traj).tolist() == low


@quick
@given(rows)
def test_missing_values_in_passes(rows: list[list[float]]):
    x, traj = flat(rows)
    known, low = [], []
    for row in rows:
        for t in range(len(row)):
            before = [v for v in row[: t + 1] if not math.isnan(v)]
            after = [v for v in row[t:] if not math.isnan(v)]
            known.append(before[-1] if before else NAN)
            low.append(min(after) if after else NAN)
    assert columns.last_known(x, traj).tolist() == near(known, 0)
    assert columns.suffix_min(x, traj).tolist() == near(low, 0)


def test_neighbours_and_places():
    traj = np.array([0, 0, 2, 2, 2])
    x = np.arange(5.0)
    ends = np.array([10.0, 20.0, 30.0])
    assert columns.turn_index(traj).tolist() == [0, 1, 0, 1, 2]
    assert columns.turns_left(traj).tolist() == [1, 0, 2, 1, 0]
    assert columns.following(x, traj, ends).tolist() == [1, 10, 3, 4, 30]
    assert columns.shifted(x, traj, ends).tolist() == [10, 0, 30, 2, 3]
    assert columns.totals(np.array([1, NAN, 2, 3, NAN]), traj, 4).tolist() == [1, 0, 5, 0]


def test_columns_that_do_not_fit_raise():
    with pytest.raises(ShapeError, match="must not decrease"):
        columns.owners([0, 1, 0])
    with pytest.raises(ShapeError, match="there are only 2"):
        columns.owners([0, 2], 2)
    with pytest.raises(ShapeError, match=r"traj_N has shape \(1, 1\)"):
        columns.owners([[0]])
    with pytest.raises(ShapeError, match=r"x\[1\] is nan; it must be finite"):
        columns.numbers("x", [0, NAN])
    with pytest.raises(ShapeError, match=r"x\[\(0, 1\)\] is 2.0; it must be at most 1"):
        columns.numbers("x", [[0, 2]], high=1.0)
    with pytest.raises(ShapeError, match="binarise"):
        columns.flags("x", [0.5], (1,))
