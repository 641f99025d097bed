"""PROF: which rollouts stay. Worked numbers of https://arxiv.org/abs/2509.03403."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near_or_missing as near
from turngate.errors import ConfigError, ShapeError
from turngate.rewards.consistency import consistency, prof_keep

NAN = math.nan
quick = settings(max_examples=25, deadline=None)


def prof_case() -> tuple[list[int], list[float]]:
    return [1] * 5 + [0] * 3, [0.9, 0.8, 0.6, 0.4, 0.3, 0.7, 0.3, 0.2]


def test_prof_worked_numbers():
    outcome, mean = prof_case()
    c = (2 * np.array(outcome) - 1) * 2 * (np.array(mean) - 0.5)
    keep = prof_keep(outcome, c, [0] * 8, n_keep=4)
    assert keep.tolist() == [True, True, False, False, False, False, True, True]


def test_prof_keeps_a_rollout_nobody_judged_before_one_whose_process_contradicts_it():
    """The judge was silent on the first success; the second one has poor steps. Cut to two, one of each class."""
    p = [0.1, 0.2, 0.9, 0.8, 0.1, 0.1]
    c = consistency([1, 1, 0, 0], p, [1, 1, 2, 2, 3, 3])
    assert np.flatnonzero(prof_keep([1, 1, 0, 0], c, [0] * 4, n_keep=2)).tolist() == [0, 3]


@pytest.mark.parametrize(
    ("n_keep", "right", "wrong"), [(4, {0.9, 0.8}, {0.6, 0.1}), (2, {0.9}, {0.1}), (8, None, None)]
)
def test_prof_balances_first_and_then_drops_evenly(n_keep: int, right: Any, wrong: Any):
    outcome, s = np.array([1] * 6 + [0] * 2), np.array([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.6, 0.1])
    for odd in ("even", "incorrect"):
        keep = prof_keep(outcome, (2 * outcome - 1) * s, [0] * 8, n_keep=n_keep, odd=odd)
        if right is None:
            assert keep.all()
        else:
            assert set(s[keep & (outcome == 1)]) == right
            assert set(s[keep & (outcome == 0)]) == wrong


def test_consistency_is_its_definition():
    traj, p = [0, 0, 1, 1, 3, 3], [0.9, 0.7, 0.2, NAN, 0.4, 0.6]
    centre = (0.9 + 0.7 + 0.2 + 0.4 + 0.6) / 5
    c = consistency([1, 0, 1, 0], p, traj)
    expected = [2 * (0.8 - centre), -2 * (0.2 - centre) - 10, 0, -2 * (0.5 - centre)]
    assert c.tolist() == near(expected)
    low = consistency([1, 0, 1, 0], p, traj, agg="min", min_turns=0)
    assert low.tolist() == near([2 * (0.7 - centre), -2 * (0.2 - centre), 0, -2 * (0.4 - centre)])
    assert consistency([1], [0.5] * 31, [0] * 31).tolist() == near([-10])
    assert consistency([1, 0, 1], [NAN, NAN], [0, 2]).tolist() == [0.0, 0.0, 0.0]  # nothing said: nothing to be off


def test_prof_never_drops_graded_outcomes_silently():
    with pytest.raises(ShapeError, match=r"outcome_B\[1\] is 0.5; it must be 0 or 1; binarise it first"):
        prof_keep([1, 0.5], [0, 0], [0, 0])
    with pytest.raises(ShapeError, match="binarise"):
        consistency([0.5], [1.0], [0])


def test_prof_ties_drop_the_larger_index():
    assert prof_keep([1] * 4 + [0] * 4, [0.0] * 8, [0] * 8).tolist() == [True, True, False, False] * 2


@pytest.mark.parametrize(("one_sided", "kept"), [("trim", [2, 3, 4, 5]), ("keep", list(range(6))), ("drop", [])])
def test_prof_one_sided_groups(one_sided: Any, kept: list[int]):
    keep = prof_keep([1] * 6, [0, 1, 2, 3, 4, 5], [7] * 6, one_sided=one_sided)
    assert np.flatnonzero(keep).tolist() == kept


def test_prof_odd_surplus():
    outcome, c, groups = [1, 1, 1, 0, 0], [3.0, 2, 1, 2, 1], [0] * 5
    assert np.flatnonzero(~prof_keep(outcome, c, groups, n_keep=3)).tolist() == [1, 2]  # round(1.5) = 2
    assert np.flatnonzero(~prof_keep(outcome, c, groups, n_keep=3, odd="incorrect")).tolist() == [2, 4]


def test_prof_correct_mode_drops_failures_by_seed():
    outcome, c = [1] * 4 + [0] * 4, [3.0, 2, 1, 0, 3, 2, 1, 0]
    kept = [prof_keep(outcome, c, [0] * 8, mode="correct", seed=seed) for seed in range(20)]
    assert all(keep[:4].tolist() == [True, True, False, False] and keep[4:].sum() == 2 for keep in kept)
    assert len({tuple(keep) for keep in kept}) > 3
    assert (kept[3] == prof_keep(outcome, c, [0] * 8, mode="correct", seed=3)).all()


@quick
@given(st.data())
def test_prof_keeps_n_balances_and_nests(data: Any):
    n = data.draw(st.integers(1, 10))
    outcome = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    c = np.array(data.draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n)), float)
    mode, odd = data.draw(st.sampled_from(["both", "correct"])), data.draw(st.sampled_from(["even", "incorrect"]))
    before = np.ones(n, np.bool_)
    imbalance = abs(2 * int(outcome.sum()) - n)
    for n_keep in range(n, 0, -1):
        keep = prof_keep(outcome, c, [0] * n, n_keep=n_keep, mode=mode, odd=odd)
        assert keep.sum() == n_keep
        assert not (keep & ~before).any()
        now = abs(2 * int(outcome[keep].sum()) - n_keep)
        assert now <= max(imbalance, 1)
        before, imbalance = keep, now


def test_prof_groups_are_cut_apart():
    outcome, c = np.array([1, 0, 1, 0, 1, 0, 1, 0]), np.arange(8.0)
    groups = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    together = prof_keep(outcome, c, groups, n_keep=2)
    for g in (0, 1):
        alone = prof_keep(outcome[groups == g], c[groups == g], [0] * 4, n_keep=2)
        assert together[groups == g].tolist() == alone.tolist()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: prof_keep([1], [0], [0], n_keep=0), "n_keep is 0"),
        (lambda: prof_keep([1], [0], [0], mode="all"), "'all'; it must be one of both, correct"),
        (lambda: consistency([1], [0.5], [0], agg="max"), "'max'"),
    ],
)
def test_bad_input_raises(call: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        call()
