"""Differences, potentials and softened minima per turn."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import suffix_sum
from turngate.rewards.shaping import (
    best_of,
    branch_values,
    clip_scores,
    delta_scores,
    potential_shaping,
    progress,
    pure,
    search_score,
    spa,
    spa_loss,
)

NAN = math.nan
quick = settings(max_examples=25, deadline=None)
maybe = st.one_of(st.just(NAN), st.floats(-1, 1))
share = st.one_of(st.just(NAN), st.floats(0, 1))
episodes = st.lists(st.lists(maybe, min_size=0, max_size=6), min_size=1, max_size=4)


def near(expected: Any, tolerance: float = 1e-5) -> Any:
    return pytest.approx(expected, abs=tolerance, rel=0, nan_ok=True)


def flat(rows: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    traj = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    return np.array([v for row in rows for v in row], np.float64), traj


# --- potentials ------------------------------------------------------------------------------------------------------


def test_potential_worked_numbers():
    phi, traj, reward = [0.2, 0.6, 0.5], np.zeros(3, np.int64), np.array([0, 0, 1.0])
    shaping = potential_shaping(phi, [0.9], [True], traj)
    assert shaping.tolist() == near([0.4, -0.1, -0.5])
    assert (reward + shaping).tolist() == near([0.4, -0.1, 0.5])
    to_go = suffix_sum(reward + shaping, traj)
    assert to_go.tolist() == near([0.8, 0.4, 0.5])
    assert to_go.tolist() == near((1 - np.array(phi)).tolist())
    discounted = potential_shaping(phi, [0.9], [True], traj, gamma=0.9)
    assert discounted.tolist() == near([0.34, -0.15, -0.5])
    assert sum(0.9**t * f for t, f in enumerate(discounted)) == near(-0.2)


def test_a_truncated_episode_keeps_its_last_potential():
    cut = potential_shaping([0.2, 0.6, 0.2, 0.6], [0.5, 0.5], [False, True], [0, 0, 1, 1])
    assert cut.tolist() == near([0.4, -0.1, 0.4, -0.6])
    unknown_end = potential_shaping([0.2, 0.6], [NAN], [False], [0, 0])
    assert unknown_end.tolist() == near([0.4, 0.0])


def test_an_unmeasured_potential_keeps_the_last_known_one():
    shaping = potential_shaping([NAN, 0.3, NAN, 0.7, NAN], [NAN], [True], [0] * 5)
    assert shaping.tolist() == near([0.3, 0.0, 0.4, 0.0, -0.7])


def test_shaping_is_the_same_constant_for_siblings_from_one_start():
    phi, traj = flat([[0.3, 0.9], [0.3], [0.3, 0.1, 0.2, 0.8]])
    total = np.bincount(traj, potential_shaping(phi, [0.0] * 3, [True] * 3, traj))
    assert total.tolist() == near([-0.3] * 3)


@quick
@given(episodes, st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.data())
def test_shaping_telescopes(rows: list[list[float]], gamma: float, data: Any):
    ends = data.draw(st.lists(maybe, min_size=len(rows), max_size=len(rows)))
    over = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    phi, traj = flat(rows)
    shaping = potential_shaping(phi, ends, over, traj, gamma=gamma)
    for b, row in enumerate(rows):
        if not row:
            continue
        filled = 0.0
        known = [filled := v if not math.isnan(v) else filled for v in row]
        last = 0.0 if over[b] else known[-1] if math.isnan(ends[b]) else ends[b]
        total = sum(gamma**t * f for t, f in enumerate(shaping[traj == b]))
        assert total == near(gamma ** len(row) * last - known[0], 1e-9)


def test_padding_with_a_state_that_does_not_change_earns_nothing():
    short, _ = flat([[0.1, 0.4]])
    long, _ = flat([[0.1, 0.4, 0.4, 0.4, 0.4]])
    pay = [potential_shaping(phi, [0.0], [True], [0] * len(phi)).sum() for phi in (short, long)]
    assert pay[0] == near(pay[1], 1e-12)


# --- clip and delta --------------------------------------------------------------------------------------------------


def test_clip_and_delta_worked_numbers():
    q, traj = [0.9, 0.8, 0.95, 0.3], np.zeros(4, np.int64)
    clipped = clip_scores(q, 0.5)
    assert clipped.tolist() == near([0, 0, 0, -0.2])
    delta = delta_scores(q, traj)
    assert delta.tolist() == near([0.1, -0.15, 0.65, 0.0])
    assert suffix_sum(delta, traj)[:3].tolist() == near([0.6, 0.5, 0.65])
    assert delta_scores(clipped, traj).tolist() == near([0, 0, 0.2, 0.0])


def test_delta_joins_the_neighbours_of_a_missing_step():
    assert delta_scores([0.9, NAN, 0.3, NAN], [0] * 4).tolist() == near([0.6, NAN, 0.0, NAN])
    assert delta_scores([0.9, 0.4], [0, 1]).tolist() == [0.0, 0.0]
    assert np.isnan(delta_scores([NAN, NAN], [0, 0])).all()
    assert np.isnan(clip_scores([NAN], 0.5)).all()


@quick
@given(episodes)
def test_delta_pays_each_step_its_own_score_above_the_last(rows: list[list[float]]):
    q, traj = flat(rows)
    delta = delta_scores(q, traj)
    expected = []
    for row in rows:
        known = [v for v in row if not math.isnan(v)]
        expected += [NAN if math.isnan(v) else v - known[-1] for v in row]
    to_go = np.where(np.isnan(delta), NAN, suffix_sum(np.nan_to_num(delta), traj))
    assert to_go.tolist() == near(expected, 1e-9)


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.integers(1, 40))
def test_repeating_a_good_step_never_raises_clip_or_delta(scores: list[float], n: int):
    good = [*scores, *[max(scores)] * n]
    assert clip_scores(good, 0.5).sum() <= clip_scores(scores, 0.5).sum() + 1e-9
    assert delta_scores(good, [0] * len(good)).sum() <= delta_scores(scores, [0] * len(scores)).sum() + 1e-9


# --- progress --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "gain"), [(1, 0.2), (2, 0.24), (3, 0.218), (4, 0.1776), (8, 0.053742)])
def test_best_of_k_prover(k: int, gain: float):
    assert best_of(0.5, k) - best_of(0.3, k) == near(gain)
    assert progress([0.3], [0.5], [0], prover_k=k).tolist() == near([gain])


def test_progress_worked_numbers():
    assert progress([0.3, 0.5, 0.4], [0.9], [0, 0, 0]).tolist() == near([0.2, -0.1, 0.5])
    assert search_score([0.5], [best_of(0.5, 4) - best_of(0.3, 4)]).tolist() == near([0.5888])
    assert progress([0.3, 0.5], [0.9], [0, 0], weight=3.0).tolist() == near([0.6, 1.2])


def test_progress_spreads_over_unmeasured_states():
    r = progress([0.1, NAN, NAN, 0.7, 0.5], [1.0], [0] * 5)
    assert r.tolist() == near([0.2, 0.2, 0.2, -0.2, 0.5])
    assert progress([NAN, 0.2], [1.0], [0, 0]).tolist() == near([NAN, 0.8])
    assert progress([0.2, NAN, 0.4], [NAN, 1.0], [0, 0, 1]).tolist() == near([NAN, NAN, 0.6])
    assert np.isnan(progress([NAN, NAN], [1.0], [0, 0])).all()


@quick
@given(st.lists(st.lists(share, min_size=0, max_size=6), min_size=1, max_size=4), st.data(), st.integers(1, 4))
def test_progress_telescopes(rows: list[list[float]], data: Any, k: int):
    ends = data.draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))
    values, traj = flat(rows)
    r = progress(values, ends, traj, prover_k=k)
    for b, row in enumerate(rows):
        known = [t for t, v in enumerate(row) if not math.isnan(v)]
        assert np.isnan(r[traj == b]).tolist() == [not known or t < known[0] for t in range(len(row))]
        if known:
            expected = best_of(ends[b], k) - best_of(row[known[0]], k)
            assert np.nansum(r[traj == b]) == near(expected, 1e-9)


def test_filler_turns_make_no_progress():
    assert progress([0.3, 0.3, 0.3, 0.5], [0.5], [0] * 4).tolist() == near([0, 0, 0.2, 0])


# --- values from branches --------------------------------------------------------------------------------------------


def test_branch_values_worked_example():
    # trajectory 1 leaves 0 after two turns, 2 leaves 1 after three, 3 stands alone
    traj = np.repeat([0, 1, 2, 3], [3, 4, 4, 1])
    found = branch_values([1, 0, 1, 1], [-1, 0, 1, -1], [0, 2, 3, 0], traj)
    shared, second = 2 / 3, 0.5
    expected = [shared] * 3 + [shared] * 3 + [second] + [shared] * 3 + [second] + [1]
    assert found.value_N.tolist() == near(expected)
    assert found.count_N.tolist() == [3, 3, 3, 3, 3, 3, 2, 3, 3, 3, 2, 1]


def test_branch_values_with_too_few_episodes_are_not_known():
    found = branch_values([1, 0], [-1, 0], [0, 0], [0, 0, 1, 1], min_count=2)
    assert found.value_N.tolist() == near([0.5, NAN, 0.5, NAN])
    assert found.count_N.tolist() == [2, 1, 2, 1]


def test_without_branches_a_value_is_the_own_outcome():
    found = branch_values([1, 0.25], [-1, -1], [0, 0], [0, 0, 1])
    assert found.value_N.tolist() == [1, 1, 0.25]


@quick
@given(st.data())
def test_branch_values_are_means_over_episodes_through_the_state(data: Any):
    n = data.draw(st.integers(1, 6))
    lengths, parents, forks, paths = [], [], [], []
    for b in range(n):
        length = data.draw(st.integers(1, 4))
        parent = data.draw(st.integers(-1, b - 1))
        fork = 0
        if parent >= 0:
            fork = data.draw(st.integers(0, lengths[parent] - 1))
            length = max(length, data.draw(st.integers(fork, fork + 2)))
        inherited = paths[parent][: fork + 1] if parent >= 0 else [(b, 0)]
        paths.append((inherited + [(b, t) for t in range(len(inherited), length)])[:length])
        lengths.append(length), parents.append(parent), forks.append(fork)
    outcome = data.draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))
    traj = np.repeat(np.arange(n), lengths)
    found = branch_values(outcome, parents, forks, traj)
    expected, seen = [], []
    for path in paths:
        for state in path:
            through = [o for o, other in zip(outcome, paths, strict=True) if state in other]
            expected.append(sum(through) / len(through))
            seen.append(len(through))
    assert found.value_N.tolist() == near(expected, 1e-9)
    assert found.count_N.tolist() == seen


# --- SPA -------------------------------------------------------------------------------------------------------------


def test_spa_worked_numbers():
    c, traj = [0.2, 0.5, 0.1], np.zeros(3, np.int64)
    assert spa_loss(c, [1.0], traj).tolist() == near([0.04])
    released = spa(c, [1.0], traj, grounded_N=[1, 0, 1], b=0.5, exact_sum=False)
    assert released.tolist() == near([0.7, 0.5, 0.6])
    assert suffix_sum(released, traj).tolist() == near([1.8, 1.1, 0.6])
    assert spa(c, [1.0], traj).tolist() == near([0.266667, 0.566667, 0.166667])


@quick
@given(episodes, st.data())
def test_spa_adds_up_to_the_return(rows: list[list[float]], data: Any):
    returns = data.draw(st.lists(st.floats(-2, 2), min_size=len(rows), max_size=len(rows)))
    estimate, traj = flat(rows)
    r = spa(estimate, returns, traj)
    assert np.isnan(r).tolist() == np.isnan(estimate).tolist()
    for b, row in enumerate(rows):
        if not all(map(math.isnan, row)):
            assert np.nansum(r[traj == b]) == near(returns[b], 1e-9)


def test_grounding_is_what_padding_can_farm():
    def total(n: int, **settings: Any) -> float:
        return float(spa([0.5] + [0.0] * n, [1.0], [0] * (n + 1), grounded_N=[1] * (n + 1), **settings).sum())

    assert total(9, b=0.5) > total(0, b=0.5) + 4
    assert total(9) == near(total(0))


# --- PURE ------------------------------------------------------------------------------------------------------------


def test_pure_worked_numbers():
    harsh = pure([0.8, -0.6, 0.4], [0] * 3)
    assert harsh.reward_N.tolist() == near([0.8 * 8e-7, -0.599972, 1.8e-5])
    assert harsh.return_N.tolist() == near([-0.599953, -0.599954, 0.000018])
    mild = pure([0.3, 0.2, 0.25], [0] * 3)
    weights = mild.reward_N / [0.3, 0.2, 0.25]
    assert weights.tolist() == near([0.186324, 0.506480, 0.307196])
    assert mild.return_N.tolist() == near([0.233992, 0.178095, 0.076799])


def test_pure_strict_suffix():
    strict = pure([0.8, -0.6, 0.4], [0] * 3, mode="strict_suffix")
    assert strict.return_N.tolist() == near([-0.6, -0.6, 0.4])
    assert strict.reward_N.tolist() == near([0.0, -1.0, 0.4])


@pytest.mark.parametrize("mode", ["softmin_all", "strict_suffix"])
def test_pure_degenerate_cases(mode: Any):
    one = pure([0.7], [0], mode=mode)
    assert (one.reward_N.tolist(), one.return_N.tolist()) == ([0.7], [0.7])
    gap = pure([0.8, NAN, -0.6, NAN], [0] * 4, mode=mode)
    joined = pure([0.8, -0.6], [0] * 2, mode=mode)
    assert gap.reward_N[[0, 2]].tolist() == near(joined.reward_N.tolist())
    assert gap.return_N[[0, 1, 2]].tolist() == near(joined.return_N[[0, 1, 1]].tolist())
    assert np.isnan(gap.reward_N[[1, 3]]).all()
    assert np.isnan(gap.return_N[3])
    nothing = pure([NAN, NAN], [0, 0], mode=mode)
    assert np.isnan([*nothing.reward_N, *nothing.return_N]).all()
    assert pure([], [], mode=mode).reward_N.tolist() == []


def test_pure_does_not_overflow_and_comes_near_the_minimum():
    cold = pure([300.0, -500.0, 900.0], [0] * 3, temperature=1e-3)
    assert cold.return_N[0] == near(-500.0)


@quick
@given(episodes, st.sampled_from([0.05, 0.1, 1.0]))
def test_pure_is_its_definition(rows: list[list[float]], tau: float):
    q, traj = flat(rows)
    soft, strict = pure(q, traj, temperature=tau), pure(q, traj, mode="strict_suffix")
    soft_reward, soft_return, strict_return = [], [], []
    for row in rows:
        known = [v for v in row if not math.isnan(v)]
        total = sum(math.exp(-v / tau) for v in known)
        paid = [NAN if math.isnan(v) else math.exp(-v / tau) / total * v for v in row]
        soft_reward += paid
        for t in range(len(row)):
            rest = [v for v in row[t:] if not math.isnan(v)]
            soft_return.append(sum(v for v in paid[t:] if not math.isnan(v)) if rest else NAN)
            strict_return.append(min(rest) if rest else NAN)
    assert soft.reward_N.tolist() == near(soft_reward, 1e-7)
    assert soft.return_N.tolist() == near(soft_return, 1e-7)
    assert strict.return_N.tolist() == near(strict_return, 1e-12)
    again = np.where(np.isnan(strict.return_N), NAN, suffix_sum(np.nan_to_num(strict.reward_N), traj))
    assert again.tolist() == near(strict.return_N.tolist(), 1e-9)


@quick
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5), st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_no_further_step_ever_raises_the_strict_minimum(scores: list[float], padding: list[float]):
    def first(row: list[float], mode: Any) -> float:
        return float(pure(row, [0] * len(row), mode=mode).return_N[0])

    assert first(scores + padding, "strict_suffix") <= first(scores, "strict_suffix")
    assert min(scores) - 1e-9 <= first(scores, "softmin_all") <= sum(scores) / len(scores) + 1e-9
    assert -1 <= first(scores + padding, "softmin_all") <= 1


def test_a_further_good_step_can_raise_the_soft_minimum():
    assert pure([0.3, 0.4], [0, 0]).return_N[0] == near(0.326894)


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: potential_shaping([0.1], [0.0], [True], [0], gamma=1.1), ConfigError, "gamma is 1.1"),
        (lambda: potential_shaping([math.inf], [0.0], [True], [0]), ShapeError, r"potential_N\[0\] is inf"),
        (lambda: potential_shaping([0.1], [0.0], [True, True], [0]), ShapeError, "terminated_B has shape"),
        (lambda: delta_scores([0.1], [0, 0]), ShapeError, r"score_N has shape \(1,\), expected \(2,\)"),
        (lambda: best_of([0.5], 0), ConfigError, "k is 0"),
        (lambda: best_of([1.5], 2), ShapeError, "at most 1"),
        (lambda: progress([0.5], [0.5], [1]), ShapeError, "there are only 1"),
        (lambda: branch_values([1, 0], [1, 0], [0, 0], [0, 1]), ShapeError, "circle"),
        (lambda: branch_values([1], [3], [0], [0]), ShapeError, "name one of 1 trajectories"),
        (lambda: branch_values([1, 0], [-1, 0], [0, 1], [0, 1, 1]), ShapeError, "branches at turn 1 off trajectory 0"),
        (lambda: branch_values([1], [-1], [0], [0], min_count=0), ConfigError, "min_count is 0"),
        (lambda: spa([0.5], [1.0], [0], b=0.5), ConfigError, "no grounded_N"),
        (lambda: spa([0.5], [NAN], [0]), ShapeError, r"return_B\[0\] is nan"),
        (lambda: pure([0.5], [0], temperature=0.0), ConfigError, "temperature is 0.0"),
        (lambda: pure([0.5], [0], mode="sum"), ConfigError, "'sum'"),
    ],
)
def test_bad_input_raises(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call()
