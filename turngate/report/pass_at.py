"""pass@k: the chance that one of k episodes of a task succeeds, from more episodes than k, and its curve over k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from turngate.errors import ShapeError
from turngate.report.intervals import Interval, SuccessCount, check_count


def pass_at(successes: int, n: int, k: int) -> float:
    """``1 − C(n−c, k) / C(n, k)`` with c successes of n episodes: the share of all k of them with a success.

    Unbiased for ``1 − (1−p)^k``, unlike that formula at ``p = c/n``. Source: Chen et al. 2021, arXiv 2107.03374, eq. 1.
    Raises ShapeError unless ``0 <= successes <= n`` and ``1 <= k <= n``.
    """
    check_count(successes, n)
    if not 1 <= k <= n:
        raise ShapeError(f"k is {k}; pass@k of {n} episodes needs 1 <= k <= {n}")
    return 1 - comb(n - successes, k) / comb(n, k)


def pass_curve(
    task_B: Sequence[str],
    question_B: Sequence[str],
    success_B: Sequence[bool],
    *,
    seed: int = 0,
    resamples: int = 2000,
) -> dict[int, Interval]:
    """k → the mean pass@k of the tasks, with a bootstrap of 95 % that draws distinct questions.

    The arguments have one entry per usable episode. k is 1, 2, 4, … and the fewest episodes of a task, up to which all
    tasks count at each k; empty where a task was played once, because then there is no curve. Raises ShapeError.
    """
    if not len(task_B) == len(question_B) == len(success_B):
        raise ShapeError(f"{len(task_B)} tasks, {len(question_B)} questions and {len(success_B)} successes")
    counts: dict[str, SuccessCount] = {}
    for task, success in zip(task_B, success_B, strict=True):
        before = counts.get(task, SuccessCount(0, 0))
        counts[task] = SuccessCount(before.successes + success, before.n + 1)
    fewest = min((count.n for count in counts.values()), default=0)
    if fewest < 2:
        return {}
    question = dict(zip(task_B, question_B, strict=True))
    names = sorted(set(question_B))
    asked = Counter(question[task] for task in counts)
    n_Q = np.array([asked[name] for name in names], np.float64)
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    curve: dict[int, Interval] = {}
    for k in sorted({fewest, *(2**power for power in range(fewest.bit_length()))}):
        sum_Q = _sums(counts, question, names, k)
        low, high = np.quantile((draws @ sum_Q) / (draws @ n_Q), (0.025, 0.975))
        curve[k] = Interval(float(sum_Q.sum() / n_Q.sum()), float(low), float(high))
    return curve


def _sums(
    counts: Mapping[str, SuccessCount], question: Mapping[str, str], names: Sequence[str], k: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    place = {name: number for number, name in enumerate(names)}
    sum_Q = np.zeros(len(names))
    for task, count in counts.items():
        sum_Q[place[question[task]]] += pass_at(*count, k)
    return sum_Q


def pass_line(curve: Mapping[int, Interval]) -> str:
    """The curve in words; "" for an empty one."""
    if not curve:
        return ""
    points = ", ".join(f"pass@{k} {at.value:.1%} ({at.low:.1%} to {at.high:.1%})" for k, at in curve.items())
    return f"one of k episodes succeeds: {points}"
