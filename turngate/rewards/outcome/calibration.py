"""Stated confidence: proper scores, rewards that keep the incentive to be right, and when to hold back."""

from __future__ import annotations

import math

from turngate.errors import ConfigError, ShapeError


def brier(correct: bool | None, confidence: float | None) -> float | None:
    """``1 − (y − c)²`` in [0, 1], greatest in expectation for the honest confidence; None if either is missing."""
    if correct is None or confidence is None:
        return None
    return 1 - (correct - _probability(confidence)) ** 2


def log_score(correct: bool | None, confidence: float | None, *, floor: float = 1e-3) -> float | None:
    """``ln max(q, floor)`` with ``q = c`` if right, else ``1 − c``: in [ln floor, 0]. None if either is missing.

    Proper between ``floor`` and ``1 − floor``. Without a floor it is unbounded: then one confident mistake outweighs
    any number of right answers. The default is ours. Raises ConfigError for a floor outside (0, 0.5].
    """
    if not 0 < floor <= 0.5:
        raise ConfigError(f"floor={floor} must lie in (0, 0.5]")
    if correct is None or confidence is None:
        return None
    chance = _probability(confidence)
    return math.log(max(chance if correct else 1 - chance, floor))


def spherical_score(correct: bool | None, confidence: float | None) -> float | None:
    """``q / √(c² + (1 − c)²)`` in [0, 1], proper; ``q = c`` if right, else ``1 − c``. None if either is missing."""
    if correct is None or confidence is None:
        return None
    chance = _probability(confidence)
    return (chance if correct else 1 - chance) / math.hypot(chance, 1 - chance)


def rlcr(correct: bool | None, confidence: float | None, *, faithful: bool = False) -> float | None:
    """RLCR: ``y − (c − y)²`` in [−1, 1]: being right counts, and so does saying how sure one is.

    Bounded, so a right answer (≥ 0) is never below a wrong one (≤ 0) whatever was said. An agent that states no
    readable confidence (None) is scored as if it had said the worst one, ``y − 1``, so silence never pays more than a
    statement. ``faithful=True`` (https://arxiv.org/abs/2507.16806) earns 0 then, more than every wrong answer with a
    confidence above 0. None if ``correct`` is not measured. For always honest certainty it becomes ``y``.
    """
    if correct is None:
        return None
    if confidence is None:
        return 0.0 if faithful else correct - 1.0
    return correct - (_probability(confidence) - correct) ** 2


def rlcr_released(correct: bool | None, confidence: float | None, *, well_formed: bool = True) -> float | None:
    """The released code's mixture ``½·format + ½·y + ½·(1 − (y − c)²)`` in [0, 1.5]; no readable confidence: 0.

    A wrong but honest and well-formed answer earns up to 1, as much as a right one with c = 0.
    None if ``correct`` is not measured. Source: https://arxiv.org/abs/2507.16806, its code.
    """
    if correct is None:
        return None
    if confidence is None:
        return 0.0
    return 0.5 * well_formed + 0.5 * correct + 0.5 * (1 - (correct - _probability(confidence)) ** 2)


def answer_threshold(*, correct: float = 1.0, wrong: float = 0.0, abstained: float = 0.3) -> float:
    """The chance of being right from which answering is worth more: ``(abstained − wrong) / (correct − wrong)``.

    Raises ConfigError unless ``wrong ≤ abstained < correct``.
    """
    if not wrong <= abstained < correct:
        raise ConfigError(f"{correct=}, {abstained=}, {wrong=} must satisfy wrong ≤ abstained < correct")
    return (abstained - wrong) / (correct - wrong)


def answer_or_abstain(correct: bool | None, *, abstained: bool, threshold: float) -> float | None:
    """1 for right, 0 for abstaining and ``−t / (1 − t)`` for wrong: answering pays iff one is right with chance > t.

    The wrong answer's cost makes ``t = threshold`` the break-even point. ``threshold=0`` becomes plain accuracy. None
    if it was answered and ``correct`` is not measured. Raises ConfigError for a threshold outside [0, 1).
    """
    if not 0 <= threshold < 1:
        raise ConfigError(f"threshold={threshold} must lie in [0, 1)")
    if abstained:
        return 0.0
    return None if correct is None else (1.0 if correct else -threshold / (1 - threshold))


def _probability(confidence: float) -> float:
    if not 0 <= confidence <= 1:
        raise ShapeError(f"confidence is {confidence}; state it in [0, 1], and pass None where it cannot be read")
    return confidence
