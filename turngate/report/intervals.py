"""How sure a success rate, or the difference of two, is: 95 % intervals, which stay in [0, 1] and in [-1, 1].

Rates have Wilson's interval, at the effective number of episodes where several ask one question. The interval of a
difference is a bootstrap over distinct questions if both sides were asked the same, else Newcombe's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError


class Interval(NamedTuple):
    """An estimate between its bounds."""

    value: float
    low: float
    high: float


class SuccessCount(NamedTuple):
    """``successes`` of ``n`` episodes."""

    successes: int
    n: int


class Total(NamedTuple):
    """The sum of one number over ``n`` episodes, such as their turns."""

    total: float
    n: int


def by_question(question_B: Sequence[str], success_B: Sequence[bool]) -> dict[str, SuccessCount]:
    """Count successes and episodes per question; the arguments have one entry per episode. Raises ShapeError."""
    if len(question_B) != len(success_B):
        raise ShapeError(f"{len(question_B)} questions but {len(success_B)} successes")
    successes = Counter(question for question, success in zip(question_B, success_B, strict=True) if success)
    return {question: SuccessCount(successes[question], n) for question, n in Counter(question_B).items()}


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The confidence interval of a rate: every p with ``|successes/n - p| <= z·sqrt(p(1-p)/n)`` (Wilson 1927).

    Unlike the textbook interval it stays in [0, 1] and is not of width 0 at 0 or n successes. ``n = 0`` gives (0, 1).
    Raises ShapeError unless ``0 <= successes <= n``.
    """
    check_count(successes, n)
    return _wilson(successes / n, n, z) if n else (0.0, 1.0)


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    """The same of a rate and a number of episodes that need not be whole."""
    spread = z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = sqrt(share * (1 - share) * spread + spread * spread / 4) / (1 + spread)
    # At the ends the formula is exact and its rounding is not.
    return (0.0 if share == 0 else centre - half), (1.0 if share == 1 else centre + half)


def rate_by_question(counts: Mapping[str, SuccessCount], z: float = 1.96) -> Interval:
    """The rate of episodes of which several may ask one question, with its interval: Wilson's at the effective number.

    Episodes of one question are alike, so n of them tell less than n questions would. The effective number is n over
    the design effect: the variance of the rate when questions are drawn over the one when episodes are,
    ``deff = m/(m-1) · Σ_q (s_q - p·n_q)² / n² / (p(1-p)/(n-1))`` with m questions, s_q successes of n_q episodes, n
    episodes in all and p their rate. With one episode per question deff = 1 and this is ``wilson``. It is never taken
    for less than 1. Where the variance carries no information (p is 0 or 1, or there is one question) the effective
    number is that of the questions, the fewest that n episodes can be worth.

    Source: Kish 1965, Survey Sampling (design effect); Korn and Graubard 1998, Survey Methodology 24 (interval at the
    effective number; theirs is Clopper and Pearson's); compared by Franco et al. 2019, doi 10.1093/jssam/smy019. No
    questions give (NaN, 0, 1). Raises ShapeError for a question without episodes.
    """
    if empty := [question for question, count in counts.items() if not count.n]:
        raise ShapeError(f"question '{empty[0]}' has no episodes; leave it out")
    if not counts:
        return Interval(float("nan"), 0.0, 1.0)
    count_Q = np.array(list(counts.values()), np.float64)
    (successes, n), m = count_Q.sum(axis=0), len(counts)
    p = float(successes / n)
    effective = float(m)
    if 0 < p < 1 and m > 1:
        by_question = m / (m - 1) * float(((count_Q[:, 0] - p * count_Q[:, 1]) ** 2).sum()) / n**2
        effective = float(n / max(1.0, by_question / (p * (1 - p) / (n - 1))))
    return Interval(p, *_wilson(p, effective, z))


def newcombe(before: SuccessCount, after: SuccessCount, z: float = 1.96) -> Interval:
    """The difference ``after - before`` of two independent rates, with its interval (Newcombe 1998, method 10).

    Raises ShapeError if one side has no episodes.
    """
    if not before.n or not after.n:
        raise ShapeError(f"a difference needs episodes on both sides; there are {before.n} and {after.n}")
    p, q = before.successes / before.n, after.successes / after.n
    (p_low, p_high), (q_low, q_high) = wilson(*before, z), wilson(*after, z)
    low, high = sqrt((q - q_low) ** 2 + (p_high - p) ** 2), sqrt((q_high - q) ** 2 + (p - p_low) ** 2)
    return Interval(q - p, q - p - low, q - p + high)


def paired_difference(
    before: Mapping[str, SuccessCount] | Mapping[str, Total],
    after: Mapping[str, SuccessCount] | Mapping[str, Total],
    *,
    seed: int = 0,
    resamples: int = 4000,
    level: float = 0.95,
) -> Interval:
    """The difference ``after - before`` of two rates, or of the means of any number, on the same tasks, with a
    percentile bootstrap that draws tasks.

    Episodes of one task are alike, so drawing episodes instead would give too narrow an interval. Each task is compared
    with itself, so that differences between easy and hard tasks do not widen it. If every task changed by the same
    amount (all are solved, or none is), the interval has width 0; that means that there are too few tasks to tell. The
    same seed gives the same interval. Raises ShapeError for different tasks on the two sides, for fewer than two tasks
    and for a task without episodes.
    """
    if set(before) != set(after):
        alone = sorted(set(before) ^ set(after))
        raise ShapeError(f"'{alone[0]}' and {len(alone) - 1} other tasks were played on one side only; give the same")
    if len(before) < 2:
        raise ShapeError(f"a bootstrap over tasks needs at least 2 tasks; there are {len(before)}")
    if empty := [task for task in before if not before[task].n or not after[task].n]:
        raise ShapeError(f"task '{empty[0]}' has no episodes on one side; leave it out")
    counts = np.array([(*before[task], *after[task]) for task in sorted(before)], np.float64)
    draws = np.random.default_rng(seed).multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=resamples)
    tail = (1 - level) / 2
    low, high = np.quantile(_difference(draws @ counts), (tail, 1 - tail))
    return Interval(float(_difference(counts.sum(axis=0))), float(low), float(high))


def _difference(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Difference of the rates, from an array whose last axis is (successes before, n before, the two after)."""
    return np.asarray(counts[..., 2] / counts[..., 3] - counts[..., 0] / counts[..., 1])


def check_count(successes: int, n: int) -> None:
    """Raise ShapeError unless ``0 <= successes <= n``."""
    if not 0 <= successes <= n:
        raise ShapeError(f"{successes} successes of {n} episodes; need 0 <= successes <= n")
