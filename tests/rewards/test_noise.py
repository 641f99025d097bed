"""Verifiers that err: corrections, appeals and estimated rates."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.numbers import near_or_missing as near
from turngate.errors import ConfigError, ShapeError
from turngate.rewards.noise import (
    Rates,
    backward,
    estimate_rates,
    forward,
    select_appeals,
    settle_appeals,
    update_rates,
)
from turngate.trainer.credit.cohorts import group

NAN = math.nan
quick = settings(max_examples=25, deadline=None)
rate = st.floats(0, 0.49)


def names(n: int) -> list[str]:
    return [f"t/{i}" for i in range(n)]


# --- corrections -----------------------------------------------------------------------------------------------------


def test_backward_worked_numbers():
    one, zero = backward([1, 0], false_positive=0.1, false_negative=0.2)
    assert (one, zero) == near((1.285714, -0.142857))
    assert 0.8 * one + 0.2 * zero == near(1.0)
    assert 0.1 * one + 0.9 * zero == near(0.0)


def test_forward_worked_numbers():
    one, zero = forward([1, 0], false_negative=0.2)
    assert (one, zero) == near((0.2, -0.8))
    assert 0.8 * one + 0.2 * zero == near(0.0)
    assert 0.1 * one + 0.9 * zero == near(-0.7)


@quick
@given(rate, rate)
def test_corrections_in_expectation(rho0: float, rho1: float):
    one, zero = backward([1, 0], false_positive=rho0, false_negative=rho1)
    assert (1 - rho1) * one + rho1 * zero == near(1.0, 1e-9)
    assert rho0 * one + (1 - rho0) * zero == near(0.0, 1e-9)
    up, down = forward([1, 0], false_negative=rho1)
    assert (1 - rho1) * up + rho1 * down == near(0.0, 1e-9)
    assert rho0 * up + (1 - rho0) * down == near(rho0 + rho1 - 1, 1e-9)


def test_a_z_score_cancels_the_backward_correction_but_centring_does_not():
    verdict = [1, 0, 0, 0]
    corrected = backward(verdict, false_positive=0.1, false_negative=0.2)
    one = np.zeros(4, np.int64)
    before, after = group(np.array(verdict, np.float64), one), group(corrected, one)
    assert after.z_M(eps=0).tolist() == near(before.z_M(eps=0).tolist())
    assert (after.centred_M / before.centred_M).tolist() == near([1 / 0.7] * 4)


def test_rates_per_trajectory_and_missing_verdicts():
    corrected = backward([1, 1, NAN], false_positive=[0.1, 0.0, 0.3], false_negative=[0.2, 0.0, 0.3])
    assert corrected.tolist() == near([1.285714, 1.0, NAN])
    assert forward([1, 0, NAN], false_negative=[0.2, 0.5, 0.0]).tolist() == near([0.2, -0.5, NAN])
    assert backward([1, 0], false_positive=0, false_negative=0).tolist() == [1, 0]


# --- appeals ---------------------------------------------------------------------------------------------------------


def test_only_rejections_are_appealed():
    verdict = [0, 1, NAN, 0, 0, 1]
    for seed in range(5):
        chosen = select_appeals(verdict, names(6), limit=2, seed=seed)
        assert chosen.sum() == 2
        assert not chosen[[1, 2, 5]].any()
    assert select_appeals(verdict, names(6), limit=99, seed=0).tolist() == [True, False, False, True, True, False]
    assert not select_appeals(verdict, names(6), limit=0, seed=0).any()
    audited = select_appeals(1 - np.array(verdict), names(6), limit=9, seed=0)
    assert audited.tolist() == [False, True, False, False, False, True]


def test_appeals_are_drawn_evenly():
    chosen = np.sum([select_appeals([0] * 6, names(6), limit=2, seed=seed) for seed in range(300)], axis=0)
    assert chosen.sum() == 600
    assert chosen.min() > 70


@quick
@given(st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=1, max_size=12), st.integers(0, 6), st.integers(0, 9))
def test_appeals_do_not_depend_on_the_order_of_the_batch(verdict: list[float], limit: int, seed: int):
    forth = select_appeals(verdict, names(len(verdict)), limit=limit, seed=seed)
    back = select_appeals(verdict[::-1], names(len(verdict))[::-1], limit=limit, seed=seed)
    assert forth.tolist() == back[::-1].tolist()
    assert forth.sum() == min(limit, verdict.count(0.0))


def test_settling():
    first = [0, 0, 0, 1, 1, NAN]
    second = [1, 0, NAN, 0, NAN, 1]
    assert settle_appeals(first, second).tolist() == near([1, 0, 0, 0, 1, NAN])
    assert settle_appeals(first, second, overturned=0.7).tolist() == near([0.7, 0, 0, 0, 1, NAN])


# --- rates -----------------------------------------------------------------------------------------------------------


def test_rates_from_a_full_check_are_exact():
    verdict = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])
    truth = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0])
    rates = estimate_rates(verdict, truth, [0] * 9, n_groups=2)
    assert rates.false_positive_G.tolist() == near([1 / 5, NAN])
    assert rates.false_negative_G.tolist() == near([1 / 4, NAN])


def test_rates_from_appeals_alone():
    verdict, second = [1, 1, 0, 0, 0, 0], [NAN, NAN, 1, 0, NAN, NAN]
    trusting = estimate_rates(verdict, second, [0] * 6, n_groups=1, trust_accepted=True)
    assert trusting.false_negative_G.tolist() == near([2 / 4])  # half of four rejections, and two acceptances
    assert trusting.false_positive_G.tolist() == near([0.0])
    careful = estimate_rates(verdict, second, [0] * 6, n_groups=1)
    assert np.isnan([*careful.false_negative_G, *careful.false_positive_G]).all()


def test_rates_that_nothing_was_seen_of_are_not_known():
    all_right = estimate_rates([1, 1], [1, 1], [0, 0], n_groups=1)
    assert all_right.false_negative_G.tolist() == [0.0]
    assert np.isnan(all_right.false_positive_G).all()
    unchecked = estimate_rates([0, 0], [NAN, NAN], [0, 0], n_groups=1, trust_accepted=True)
    assert np.isnan([*unchecked.false_negative_G, *unchecked.false_positive_G]).all()


def test_appeals_recover_the_rates_of_injected_noise():
    truth = (np.arange(4000) % 3 == 0).astype(float)
    flipped = np.random.default_rng(5).random(4000) < np.where(truth == 1, 0.3, 0.1)
    noisy = np.where(flipped, 1 - truth, truth)
    audited = np.where(np.arange(4000) % 2 == 0, truth, NAN)
    rates = estimate_rates(noisy, audited, np.zeros(4000, np.int64), n_groups=1)
    assert rates.false_positive_G[0] == near(0.1, 0.02)
    assert rates.false_negative_G[0] == near(0.3, 0.04)
    corrected = backward(noisy, false_positive=rates.false_positive_G[0], false_negative=rates.false_negative_G[0])
    assert corrected.mean() == near(truth.mean(), 0.03)


def test_moving_average_of_rates():
    old = Rates(false_positive_G=np.array([0.2, NAN, 0.2, 0.6]), false_negative_G=np.array([0.1, 0.1, NAN, 0.6]))
    new = Rates(false_positive_G=np.array([0.0, 0.4, NAN, 0.6]), false_negative_G=np.array([0.3, NAN, NAN, 0.6]))
    rates = update_rates(old, new)
    assert rates.false_positive_G.tolist() == near([0.18, 0.4, 0.2, 0.45])
    assert rates.false_negative_G.tolist() == near([0.12, 0.1, NAN, 0.45])


def test_rates_per_task_reach_the_correction():
    rates = Rates(false_positive_G=np.array([0.1, NAN]), false_negative_G=np.array([0.2, 0.5]))
    rho0, rho1 = rates.per_trajectory([0, 1, 0])
    assert (rho0.tolist(), rho1.tolist()) == ([0.1, 0.0, 0.1], [0.2, 0.5, 0.2])
    corrected = backward([1, 1, 0], false_positive=rho0, false_negative=rho1)
    assert corrected.tolist() == near([1.285714, 2.0, -0.142857])
    with pytest.raises(ShapeError, match="there are only 2"):
        rates.per_trajectory([2])


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: backward([1], false_positive=0.5, false_negative=0.5), ConfigError, "add up to 1.0 for trajectory 0"),
        (lambda: backward([1], false_positive=-0.1, false_negative=0), ConfigError, "false_positive is -0.1"),
        (lambda: backward([0.5], false_positive=0, false_negative=0), ShapeError, "binarise"),
        (
            lambda: backward([1], false_positive=[0, 0], false_negative=0),
            ShapeError,
            r"false_positive has shape \(2,\)",
        ),
        (lambda: backward([[1]], false_positive=0, false_negative=0), ShapeError, "one verdict per trajectory"),
        (lambda: forward([1], false_negative=NAN), ShapeError, "false_negative"),
        (lambda: forward([1], false_negative=1.0), ConfigError, "add up to 1.0"),
        (lambda: select_appeals([0], ["a", "b"], limit=1, seed=0), ShapeError, "2 names for 1 verdicts"),
        (lambda: select_appeals([0], ["a"], limit=-1, seed=0), ConfigError, "limit is -1"),
        (lambda: settle_appeals([0], [0.5]), ShapeError, "second_B"),
        (lambda: settle_appeals([0], [1], overturned=2), ConfigError, "overturned is 2"),
        (lambda: estimate_rates([0], [1], [1], n_groups=1), ShapeError, "there are only 1"),
        (lambda: estimate_rates([0], [1], [0], n_groups=0), ConfigError, "n_groups is 0"),
    ],
)
def test_bad_input_raises(call: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        call()


def test_rates_of_other_groups_raise():
    one = Rates(false_positive_G=np.zeros(1), false_negative_G=np.zeros(1))
    two = Rates(false_positive_G=np.zeros(2), false_negative_G=np.zeros(2))
    with pytest.raises(ShapeError, match="rates of 1 groups meet rates of 2"):
        update_rates(one, two)
    with pytest.raises(ConfigError, match=r"decay is 1\.5"):
        update_rates(one, one, decay=1.5)
