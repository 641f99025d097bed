"""Stated confidence: a proper score, a reward that keeps the incentive to be right, and when to hold back."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.outcome.answers import Aliases, exact_match, is_abstention
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.parts import Kind

_STATED = re.compile(r"<confidence>\s*(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})\s*(%?)\s*</confidence>")


def brier(correct: bool | None, confidence: float | None) -> float | None:
    """``1 − (y − c)²`` in [0, 1], greatest in expectation for the honest confidence; None if either is missing."""
    if correct is None or confidence is None:
        return None
    return 1 - (correct - _probability(confidence)) ** 2


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


def confidence_in(text: str) -> float | Literal[False]:
    """The confidence that ``text`` states last, as ``<confidence>0.8</confidence>`` or ``80%``; False: none in [0, 1].

    The form is that of RLCR (https://arxiv.org/abs/2507.16806).
    """
    found = _STATED.findall(text)
    if not found:
        return False
    number, percent = found[-1]
    value = float(number) / (100 if percent else 1)
    return value if 0 <= value <= 1 else False


def _probability(confidence: float) -> float:
    if not 0 <= confidence <= 1:
        raise ShapeError(f"confidence is {confidence}; state it in [0, 1], and pass None where it cannot be read")
    return confidence


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class Rlcr(Formula):
    """Whether the answer was ``correct``, minus how far ``stated_confidence`` was from that, by ``rlcr``.

    ``stated_confidence`` is a number in [0, 1], or false where the agent stated none that can be read. A right answer
    is a success whatever the confidence.
    """

    type: Literal["rlcr"] = "rlcr"
    decided_by: ClassVar[str] = "correct"
    kind: Kind = "outcome"
    low: float = -1.0
    faithful: bool = False
    """Whether no stated confidence earns 0, as published: more than most wrong answers that state one."""

    def grade(self, correct: bool, stated_confidence: float | Literal[False]) -> float | None:
        """The verdict by ``rlcr``."""
        return rlcr(correct, _readable(stated_confidence), faithful=self.faithful)


class BrierScore(Formula):
    """How well ``stated_confidence`` fits whether the answer was ``correct``, by ``brier``; none stated: 0.

    Alone it pays a wrong answer as much as a right one, so keep it behind or beside an outcome.
    """

    type: Literal["brier"] = "brier"
    decided_by: ClassVar[str] = "correct"

    def grade(self, correct: bool, stated_confidence: float | Literal[False]) -> float | None:
        """The verdict by ``brier``."""
        stated = _readable(stated_confidence)
        return 0.0 if stated is None else brier(correct, stated)


class AnswerOrAbstain(Formula):
    """1 for an ``answer`` that matches ``gold``, 0 for "I don't know" or none, and −t / (1 − t) for a wrong one."""

    type: Literal["answer_or_abstain"] = "answer_or_abstain"
    kind: Kind = "outcome"
    low: float = -1.0
    threshold: float = 0.5
    """The chance of being right from which on answering pays (t)."""

    def model_post_init(self, context: object) -> None:
        """Raises ConfigError for a threshold outside [0, 1), or one at which a wrong answer costs more than ``low``."""
        super().model_post_init(context)
        self._needs_range(answer_or_abstain(False, abstained=False, threshold=self.threshold) or 0.0, 1.0)

    def grade(self, answer: str | None, gold: Aliases) -> float | None:
        """``answer_or_abstain`` of an exact match."""
        correct = exact_match(answer or "", gold)
        abstained = is_abstention(answer or "")
        return answer_or_abstain(
            None if correct is None else bool(correct), abstained=abstained, threshold=self.threshold
        )


def _readable(confidence: float | Literal[False]) -> float | None:
    return float(confidence) if confidence is not False and 0 <= confidence <= 1 else None
