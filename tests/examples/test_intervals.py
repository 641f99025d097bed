"""Intervals over seeds against worked numbers, their definition and their special cases; the exact test by hand."""

from itertools import product
from math import inf, sqrt
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.intervals import MOST_SEEDS, STUDENT, interval, sign_flip
from turngate.errors import ConfigError
from turngate.report.intervals import wilson

RATES = st.lists(st.floats(0, 1), min_size=2, max_size=8)


def by_grid(values, low, high):
    """The definition, tried at every point of a fine grid of the range."""
    n, mean = len(values), fmean(values)
    grid = np.linspace(low, high, 400_001)
    allowed = STUDENT[n - 2] * stdev(values) / sqrt(n)
    shrink = np.sqrt((grid - low) * (high - grid) / ((mean - low) * (high - mean)))
    inside = grid[np.abs(mean - grid) <= allowed * shrink]
    return inside[0], inside[-1]


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([0.9, 0.1, 0.86, 0.84, 0.0], 0, 1), ([0.97, 1.0, 1.0], 0, 1), ([0.06, 0.76, 0.06, 0.06, 0.78], -1, 1)],
)
def test_bounds_are_where_the_definition_ends(values, low, high):
    found = interval(values, low=low, high=high)
    assert (found.low, found.high) == pytest.approx(by_grid(values, low, high), abs=1e-5)
    assert found.mean == pytest.approx(fmean(values))


def test_without_ends_it_is_students():
    """Means and bounds of 0.1, 0.2, 0.3 by hand: a standard deviation of 0.1, two degrees of freedom."""
    half = 4.303 * 0.1 / sqrt(3)
    assert interval([0.1, 0.2, 0.3]) == pytest.approx((0.2, 0.2 - half, 0.2 + half))


def test_with_one_end_it_solves_the_other_quadratic():
    values = [0.4, 0.0, 0.2]  # mean 0.2, s 0.2: (0.2 - m)² = t²·0.04/3/0.2·m
    scale = 4.303**2 * 0.04 / 3 / 0.2
    middle = 0.2 + scale / 2
    low, high = middle - sqrt(middle**2 - 0.04), middle + sqrt(middle**2 - 0.04)
    assert interval(values, low=0) == pytest.approx((0.2, low, high))
    mirrored = interval([-value for value in values], high=0)
    assert mirrored == pytest.approx((-0.2, -high, -low))


def test_in_rates_it_is_wilsons_at_the_effective_number():
    values = [0.5, 0.7, 0.6, 0.4, 0.3]  # mean 0.5, s² = 0.025: 0.25 / (0.025 / 5) = 50 episodes
    assert interval(values, low=0, high=1)[1:] == pytest.approx(wilson(25, 50, z=2.776))
    assert interval(values, low=0, high=1, trials=40)[1:] == pytest.approx(wilson(20, 40, z=2.776))
    assert interval(values, low=0, high=1, trials=500) == interval(values, low=0, high=1)


@pytest.mark.parametrize("rate", [0, 1])
def test_equal_rates_at_an_end_are_worth_their_episodes(rate):
    found = interval([rate] * 5, low=0, high=1, trials=500)
    assert found[1:] == pytest.approx(wilson(500 * rate, 500, z=2.776))
    assert interval([rate] * 5, low=0, high=1) == (rate, rate, rate)


def test_a_single_seed_has_no_interval():
    assert interval([0.3], low=0, high=1, trials=100) == (0.3, 0.3, 0.3)


@given(RATES, st.sampled_from([0, 50]))
def test_no_interval_leaves_the_range(values, trials):
    found = interval(values, low=0, high=1, trials=trials)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    shifted = interval([2 * value - 1 for value in values], low=-1, high=1)
    assert -1 <= shifted.low <= shifted.mean <= shifted.high <= 1


@pytest.mark.parametrize(
    ("values", "said", "message"),
    [
        ([], {}, "0 seeds: an interval needs 1 to 20"),
        ([0.0] * (MOST_SEEDS + 1), {}, "21 seeds: an interval needs 1 to 20"),
        ([0.5, 1.5], {"low": 0, "high": 1}, r"1.5 is not in \[0, 1\]"),
        ([0.5, 0.6], {"low": -1, "high": 1, "trials": 9}, r"trials are of rates, in \[0, 1\]; this range is \[-1, 1\]"),
        ([0.5, float("nan")], {"low": 0, "high": 1}, "nan is not in"),
    ],
)
def test_what_has_no_interval_is_refused(values, said, message):
    with pytest.raises(ConfigError, match=message):
        interval(values, **said)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=8))
def test_the_exact_p_is_the_share_of_signs(differences):
    observed = abs(sum(differences))
    every = [abs(sum(map(int.__mul__, signs, differences))) for signs in product((-1, 1), repeat=len(differences))]
    assert sign_flip([d / 10 for d in differences]) == fmean(total >= observed for total in every)


def test_the_exact_p_in_numbers():
    """Darwin's plants (Fisher 1935, §21): 863 of 32,768 choices of signs are as high, so 2 · 863 / 2^15."""
    darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip(darwin) == pytest.approx(2 * 863 / 2**15)
    assert sign_flip([0.06, 0.76, 0.06, 0.06, 0.78]) == 2 / 32
    with pytest.raises(ConfigError, match="0 differences"):
        sign_flip([])


def test_an_infinite_range_takes_any_value():
    assert interval([-3.0, 5.0], low=-inf, high=inf).mean == 1.0
