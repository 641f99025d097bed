"""How far a judge can be trusted, measured on labelled work: error rates, agreement, order and length bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts.verdicts import PairScores, settle_orders

MAX_LENGTH_CORRELATION = 0.2
"""Largest |r| between length and verdict that still counts as unbiased; a rule of thumb, from no paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How verdicts agree with labels. ``n`` counts rows with a verdict, ``n_missing`` those without. None = no rows to
    measure it on.

    ``false_positive``: share of yes among rows labelled no; ``false_negative``: share of no among rows labelled yes;
    each with its one-sided 95 % upper bound. ``length_correlation``: Pearson's r of length and score within each label.
    """

    n: int
    n_missing: int
    n_negative: int
    n_positive: int
    false_positive: float | None
    false_positive_bound: float | None
    false_negative: float | None
    false_negative_bound: float | None
    kappa: float | None
    length_correlation: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    """Pairs asked in both orders: how often the two replies agree, and who wins when they do not.

    ``first_share`` is the share of all decided replies that the one shown first wins; ½ is fair. ``accuracy`` compares
    settled verdicts with labels. None = nothing to measure it on.
    """

    n: int
    n_missing: int
    consistency: float | None
    first_share: float | None
    accuracy: float | None


def agreement(
    passed: Sequence[bool | None], score: Sequence[float | None], label: Sequence[bool], length: Sequence[float]
) -> Agreement:
    """Compare verdicts with labels, one entry per row. None = no verdict; no rate counts it. Raises ShapeError for
    unequal lengths."""
    if not len(passed) == len(score) == len(label) == len(length):
        sizes = (len(passed), len(score), len(label), len(length))
        raise ShapeError(f"verdicts, scores, labels and lengths differ in number: {sizes}")
    rows = [row for row in zip(passed, score, label, length, strict=True) if row[0] is not None]
    yes_on_no = [bool(said) for said, _, truth, _ in rows if not truth]
    no_on_yes = [not said for said, _, truth, _ in rows if truth]
    return Agreement(
        n=len(rows),
        n_missing=len(passed) - len(rows),
        n_negative=len(yes_on_no),
        n_positive=len(no_on_yes),
        false_positive=_share(yes_on_no),
        false_positive_bound=upper_bound(sum(yes_on_no), len(yes_on_no)) if yes_on_no else None,
        false_negative=_share(no_on_yes),
        false_negative_bound=upper_bound(sum(no_on_yes), len(no_on_yes)) if no_on_yes else None,
        kappa=kappa([bool(said) for said, *_ in rows], [truth for _, _, truth, _ in rows]),
        length_correlation=_length_correlation(
            [(value, truth, size) for _, value, truth, size in rows if value is not None]
        ),
    )


def order_report(replies: Sequence[tuple[PairScores, PairScores] | None], label: Sequence[float | None]) -> OrderReport:
    """``replies``: the scores for (A, B) and for (B, A), None if one is missing; ``label``: A's true share (1, ½, 0) or
    None. Raises ShapeError for unequal lengths."""
    if len(replies) != len(label):
        raise ShapeError(f"{len(replies)} pairs but {len(label)} labels")
    pairs = [(pair, truth) for pair, truth in zip(replies, label, strict=True) if pair is not None]
    settled = [settle_orders(*pair) for pair, _ in pairs]
    decided = [one.first > one.second for pair, _ in pairs for one in pair if one.first != one.second]
    truths = [(verdict.share, truth) for verdict, (_, truth) in zip(settled, pairs, strict=True) if truth is not None]
    return OrderReport(
        n=len(pairs),
        n_missing=len(replies) - len(pairs),
        consistency=_share([verdict.consistent for verdict in settled]),
        first_share=_share(decided),
        accuracy=_share([share == truth for share, truth in truths]),
    )


def follows_length(work: Agreement) -> bool:
    """Whether scores follow the length of the answers: |r| is at least ``MAX_LENGTH_CORRELATION``, and not by chance.

    Fisher's z, |atanh r|·√(n − 5) ≥ 1.96: two sided at 5 %, with two degrees of freedom less than usual because the
    means of both labels are taken out. Fewer than six rows show nothing.
    """
    r = work.length_correlation
    if r is None or abs(r) < MAX_LENGTH_CORRELATION or work.n < 6:
        return False
    return abs(r) >= 1 or math.atanh(abs(r)) * math.sqrt(work.n - 5) >= 1.96


def kappa(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """Cohen's κ = (p_o − p_e) / (1 − p_e): agreement beyond chance. None for no rows, or if both always say the same.

    Raises ShapeError for unequal lengths.
    """
    if len(one) != len(other):
        raise ShapeError(f"{len(one)} verdicts but {len(other)} labels")
    if not one:
        return None
    n = len(one)
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / n
    p, q = sum(one) / n, sum(other) / n
    expected = p * q + (1 - p) * (1 - q)
    return None if expected == 1 else (observed - expected) / (1 - expected)


def upper_bound(errors: int, n: int, *, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound (Clopper-Pearson) of an error rate after ``errors`` in ``n`` trials.

    The p at which so few errors have probability 1 − confidence; for none, ``1 − (1 − confidence)^(1/n)``: 0 false
    positives in 300 canaries bound the rate by 0.009936. Raises ConfigError unless 0 ≤ errors ≤ n, n ≥ 1 and
    0 < confidence < 1.
    """
    if not (0 <= errors <= n and n >= 1 and 0 < confidence < 1):
        raise ConfigError(f"errors={errors}, n={n}, confidence={confidence}: need 0 ≤ errors ≤ n, n ≥ 1, 0 < c < 1")
    if errors == n:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):  # halves the interval to below 1e-17
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(errors, n, middle) > 1 - confidence else (low, middle)
    return high


def _at_most(errors: int, n: int, p: float) -> float:
    """P(X ≤ errors) of a binomial."""
    return math.fsum(
        math.exp(_log_choose(n, k) + k * math.log(p) + (n - k) * math.log1p(-p)) for k in range(errors + 1)
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _length_correlation(rows: Sequence[tuple[float, bool, float]]) -> float | None:
    """Pearson's r after taking out each label's mean, because right answers may truly be longer."""
    score_M = np.array([row[0] for row in rows], np.float64)
    label_M = np.array([row[1] for row in rows], np.bool_)
    length_M = np.array([row[2] for row in rows], np.float64)
    for mask_M in (label_M, ~label_M):
        if mask_M.any():
            score_M[mask_M] -= score_M[mask_M].mean()
            length_M[mask_M] -= length_M[mask_M].mean()
    scale = math.sqrt(float(score_M @ score_M) * float(length_M @ length_M))
    return float(score_M @ length_M) / scale if scale > 1e-12 else None
