"""The answers of a judge, the reasons why there is no verdict, and how several answers to one question are combined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from turngate.errors import ConfigError
from turngate.judges.texts.items import Rule
from turngate.rewards.no_verdict import FaultKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A piece of the transcript that a verdict rests on; ``item`` is 1 for the second of a pair."""

    turn: int
    text: str
    item: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one criterion is met; ``score`` in [0, 1]. Raises ValueError for a score that is no finite number."""

    passed: bool
    score: float
    quotes: tuple[Quote, ...] = ()

    def __post_init__(self) -> None:
        _finite(self, "score")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairScores:
    """Points from 0 to 10 for the first and the second shown. Raises ValueError for points that are not finite."""

    first: float
    second: float
    quotes: tuple[Quote, ...] = ()

    def __post_init__(self) -> None:
        _finite(self, "first", "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique:
    """A judge's verdict on each turn: True = wrong, False = right, None = nothing was said about it."""

    bad_T: tuple[bool | None, ...]
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a judge gave no verdict. ``detail`` is a message for people."""

    kind: FaultKind
    detail: str = ""


Answer: TypeAlias = Verdict | PairScores | Critique | Fault


# --- several answers to one question ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """A pair after both orders: points (0 to 20) for the one and the other, and whether the orders agreed.

    Raises ValueError for points that are not finite: compared with anything they would count as a tie.
    """

    first: float
    second: float
    consistent: bool

    def __post_init__(self) -> None:
        _finite(self, "first", "second")

    @property
    def share(self) -> float:
        """The share of the first: 1, ½ (tie) or 0."""
        return 1.0 if self.first > self.second else 0.0 if self.first < self.second else 0.5


def settle_orders(forward: PairScores, backward: PairScores, *, faithful: bool = False) -> PairVerdict:
    """One verdict from asking about (A, B) and about (B, A): points are added up; orders that disagree are a tie.

    On disagreement the points are shared equally, so that a judge who prefers a place decides nothing.
    ``faithful=True`` only adds up, as ArenaRL's code does (https://arxiv.org/abs/2601.06487), whichever side that
    favours. Swapping A and B mirrors the result.
    """
    first, second = forward.first + backward.second, forward.second + backward.first
    consistent = _sign(forward.first - forward.second) == _sign(backward.second - backward.first)
    if not (consistent or faithful):
        first = second = (first + second) / 2
    return PairVerdict(first=first, second=second, consistent=consistent)


def majority(answers: Sequence[Answer]) -> Verdict | Fault:
    """The joint verdict of several samples of one pointwise question: more than half of the valid ones, mean score.

    The quotes are those of the samples that agree. An even split stays undecided (invalid). Without a valid sample it
    is the first fault. Raises ConfigError for no answers, or answers to another kind of question.
    """
    verdicts = [answer for answer in answers if isinstance(answer, Verdict)]
    faults = [answer for answer in answers if isinstance(answer, Fault)]
    if not answers or len(verdicts) + len(faults) < len(answers):
        raise ConfigError("a majority needs at least one answer, all of them to pointwise questions")
    if not verdicts:
        return faults[0]
    n_yes = sum(verdict.passed for verdict in verdicts)
    if 2 * n_yes == len(verdicts):
        return Fault(kind=FaultKind.INVALID, detail=f"{n_yes} of {len(verdicts)} samples said yes")
    passed = 2 * n_yes > len(verdicts)
    quotes = tuple(quote for verdict in verdicts if verdict.passed == passed for quote in verdict.quotes)
    return Verdict(passed=passed, score=sum(verdict.score for verdict in verdicts) / len(verdicts), quotes=quotes)


def unanimous(answers: Sequence[Verdict | Fault | Rule]) -> bool | None:
    """The joint verdict of judges of different families, for gates: yes if all say yes, no if one (or a rule) says no;
    None if one is missing and none said no. Raises ConfigError for no answers."""
    if not answers:
        raise ConfigError("a panel needs at least one judge")
    if any(isinstance(answer, Rule) or (isinstance(answer, Verdict) and not answer.passed) for answer in answers):
        return False
    return True if all(isinstance(answer, Verdict) for answer in answers) else None


def _finite(answer: Verdict | PairScores | PairVerdict, *names: str) -> None:
    """Raises ValueError for a number that is NaN or infinite: no verdict is a ``Fault``, never a number."""
    for name in names:
        if not math.isfinite(value := getattr(answer, name)):
            raise ValueError(f"{name} of a {type(answer).__name__} is {value}; say a Fault where there is no verdict")


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
