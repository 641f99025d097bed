"""Calibration: whether probabilities of being right fit how often it was right. Pure functions of one entry per
episode.

Each takes ``weight_B``, how often an episode counts, so that an interval can draw questions; None = once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.report.intervals import Interval

Floats: TypeAlias = npt.NDArray[np.float64]
BINS = 10
"""Bins of equal width of the calibration error: [0, .1), [.1, .2), …, [.9, 1]."""


class CalibrationScores(NamedTuple):
    """``auroc`` is None where all episodes succeeded, or none did."""

    n: int
    error: Interval
    brier: Interval
    auroc: Interval | None


def calibration_error(
    confidence_B: npt.ArrayLike, success_B: npt.ArrayLike, *, weight_B: npt.ArrayLike | None = None, bins: int = BINS
) -> float:
    """ECE: ``Σ_b n_b/n · |mean success − mean confidence|`` over bins of equal width.

    Source: Guo et al. 2017, https://arxiv.org/abs/1706.04599. Bounds belong to the bin above, 1 to the last one. It is
    0 for an honest constant too, so read it with ``auroc``. Raises ShapeError (see ``brier_score``) and for bins < 1.
    """
    if bins < 1:
        raise ShapeError(f"bins is {bins}; at least one is needed")
    confidence, success, weight = _checked(confidence_B, success_B, weight_B)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    apart = np.bincount(place, weight * (success - confidence), minlength=bins)
    return float(np.abs(apart).sum() / weight.sum())


def brier_score(
    confidence_B: npt.ArrayLike, success_B: npt.ArrayLike, *, weight_B: npt.ArrayLike | None = None
) -> float:
    """``mean (c − y)²``: 0 is best, always saying "one half" gets ¼ (Brier 1950).

    Raises ShapeError for arguments of other lengths, without an episode, and for a confidence outside [0, 1].
    """
    confidence, success, weight = _checked(confidence_B, success_B, weight_B)
    return float((weight * (confidence - success) ** 2).sum() / weight.sum())


def auroc(
    confidence_B: npt.ArrayLike, success_B: npt.ArrayLike, *, weight_B: npt.ArrayLike | None = None
) -> float | None:
    """The chance that a success has the higher confidence than a failure, ties counted half; None without both kinds.

    ``½`` is no better than chance. Raises ShapeError (see ``brier_score``).
    """
    confidence, success, weight = _checked(confidence_B, success_B, weight_B)
    _, place = np.unique(confidence, return_inverse=True)
    won = np.bincount(place, weight * success)
    lost = np.bincount(place, weight * (1 - success))
    if not won.sum() or not lost.sum():
        return None
    below = np.cumsum(lost) - lost
    return float((won * (below + lost / 2)).sum() / (won.sum() * lost.sum()))


def calibration(
    confidence_B: Sequence[float],
    success_B: Sequence[bool],
    question_B: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = 500,
) -> CalibrationScores:
    """The three with 95 % intervals: a percentile bootstrap that draws distinct questions.

    Draws without both kinds have no AUROC and are left out of its interval. Raises ShapeError (see ``brier_score``).
    """
    if len(question_B) != len(confidence_B):
        raise ShapeError(f"{len(question_B)} questions but {len(confidence_B)} confidences")
    found: list[Callable[[npt.ArrayLike | None], float | None]] = [
        lambda weight: calibration_error(confidence_B, success_B, weight_B=weight),
        lambda weight: brier_score(confidence_B, success_B, weight_B=weight),
        lambda weight: auroc(confidence_B, success_B, weight_B=weight),
    ]
    names, place = np.unique(np.asarray(question_B), return_inverse=True)
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    error, brier, area = (_interval(of, draws[:, place]) for of in found)
    assert error is not None
    assert brier is not None
    return CalibrationScores(len(confidence_B), error, brier, area)


def calibration_line(name: str, found: CalibrationScores) -> str:
    """The scores in words."""
    scores = {f"calibration error ({BINS} bins)": found.error, "Brier": found.brier, "AUROC": found.auroc}
    parts = [
        f"{label} {'–' if at is None else f'{at.value:.3f} ({at.low:.3f} to {at.high:.3f})'}"
        for label, at in scores.items()
    ]
    return f"{name}, {found.n} episodes: {', '.join(parts)}"


def _interval(of: Callable[[npt.ArrayLike | None], float | None], draw_RB: npt.NDArray[np.int64]) -> Interval | None:
    value = of(None)
    if value is None:
        return None
    drawn = [one for weight_B in draw_RB if (one := of(weight_B)) is not None]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(value, float(low), float(high))


def _checked(
    confidence_B: npt.ArrayLike, success_B: npt.ArrayLike, weight_B: npt.ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    confidence, success = np.asarray(confidence_B, np.float64), np.asarray(success_B, np.float64)
    weight = np.ones(len(confidence)) if weight_B is None else np.asarray(weight_B, np.float64)
    if not len(confidence) == len(success) == len(weight):
        raise ShapeError(f"{len(confidence)} confidences, {len(success)} successes and {len(weight)} weights")
    if not weight.sum():
        raise ShapeError("calibration needs at least one episode")
    if bad := [one for one in confidence.tolist() if not 0 <= one <= 1]:
        raise ShapeError(f"confidence is {bad[0]}; it must lie in [0, 1]")
    return confidence, success, weight
