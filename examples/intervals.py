"""How sure a mean over a few seeds is: seeds are the unit, not episodes, and no bound leaves the range of the values.

A run differs from another one of the same settings by more than its evaluated episodes do, so intervals come from how
seeds differ. Two rules are compared seed by seed, in runs that were asked the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf, sqrt
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np

from turngate.errors import ConfigError

# 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
MOST_SEEDS = len(STUDENT) + 1
TIE = 1e-9
"""Numbers that are this close are the same one, rounded differently."""


class Interval(NamedTuple):
    """A mean between its bounds, which are the mean itself where there is one seed only."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], *, low: float = -inf, high: float = inf, trials: int = 0) -> Interval:
    """The mean of n values, one for each seed, all of them in [low, high], with a 95 % interval in that range.

    It holds every m in [low, high] with ``|mean - m| <= t·(s/√n)·√(v(m)/v(mean))``, where t is Student's quantile with
    n - 1 degrees of freedom, s has ddof 1, and ``v(m) = (m - low)·(high - m)``: the standard error is taken to shrink
    towards the ends of the range as that of a rate does. An infinite end drops out of v, and with two of them this is
    Student's interval. In [0, 1] it is Wilson's with t for z, at the effective number of episodes ``v(mean)/(s²/n)``,
    as surveys compute it from few clusters.

    ``trials`` is the number of episodes behind the mean of rates. They are the most that it can be worth, so that equal
    rates, such as 0 for every seed, are not taken for certain. Without them equal values give an interval of width 0,
    which then says no more than that they are equal.

    Source: Wilson 1927; at an effective number, with t, for means of clusters: Franco et al. 2019, Journal of Survey
    Statistics and Methodology 7, doi 10.1093/jssam/smy019. Raises ConfigError for no value or more than ``MOST_SEEDS``,
    for a value outside of the range, and for ``trials`` of what is no rate.
    """
    n = len(values)
    if not 1 <= n <= MOST_SEEDS:
        raise ConfigError(f"{n} seeds: an interval needs 1 to {MOST_SEEDS}")
    if outside := [value for value in values if not low <= value <= high]:
        raise ConfigError(f"{outside[0]} is not in [{low}, {high}], where these values are said to be")
    if trials and (low, high) != (0, 1):
        raise ConfigError(f"trials are of rates, in [0, 1]; this range is [{low}, {high}]")
    mean = min(max(fmean(values), low), high)
    spread = variance(values) / n if n > 1 else 0.0
    share = _product(mean, low, high)
    effective = share / spread if spread else inf
    effective = min(effective, trials) if trials else effective
    if n == 1 or isinf(effective):
        return Interval(mean, mean, mean)
    return Interval(mean, *_solved(mean, STUDENT[n - 2] ** 2 / effective, low, high))


def _product(m: float, low: float, high: float) -> float:
    return (1.0 if isinf(low) else m - low) * (1.0 if isinf(high) else high - m)


def _solved(mean: float, scale: float, low: float, high: float) -> tuple[float, float]:
    """Both m with ``(mean - m)² = scale·v(m)``, from v as a polynomial: ``v(m) = -square·m² + slope·m + constant``."""
    if isinf(low) and isinf(high):
        square, slope, constant = 0.0, 0.0, 1.0
    elif isinf(high):
        square, slope, constant = 0.0, 1.0, -low
    elif isinf(low):
        square, slope, constant = 0.0, -1.0, high
    else:
        square, slope, constant = 1.0, low + high, -low * high
    a, b, c = 1 + scale * square, mean + scale * slope / 2, mean**2 - scale * constant
    half = sqrt(max(b * b - a * c, 0.0))
    # rounding leaves the range by a digit at its ends
    return max((b - half) / a, low), min((b + half) / a, high)


def sign_flip(differences: Sequence[float]) -> float:
    """The exact two-sided p of differences of which each could as well have had the other sign.

    ``p`` = share of all 2^n choices of signs whose sum is as far from 0 as the observed one, or farther. With n seeds
    it is at least 2/2^n, so five seeds never give less than 0.0625. Source: Fisher 1935, The Design of Experiments,
    §21. Raises ConfigError for no difference or more than ``MOST_SEEDS``.
    """
    n = len(differences)
    if not 1 <= n <= MOST_SEEDS:
        raise ConfigError(f"{n} differences: a test of their signs needs 1 to {MOST_SEEDS}")
    sums = np.zeros(1)
    for difference in differences:
        sums = np.concatenate([sums + difference, sums - difference])
    return float((np.abs(sums) >= abs(sum(differences)) - TIE).mean())
