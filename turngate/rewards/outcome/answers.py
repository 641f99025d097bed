"""Short answers against gold ones: text with aliases, numbers, sets and lists, and answers that were withheld.

All functions return a number in [0, 1], or None where nothing can be measured: the answer is None (never looked at,
which is not the same as an empty answer) or there is no gold to compare with. An empty answer is the agent's, so it
earns 0.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from turngate.errors import ConfigError
from turngate.rewards.outcome.assignment import best_assignment
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.outcome.normal_form import normalize, one_case, one_form
from turngate.rewards.parts import Kind
from turngate.rewards.unspaced import spaced

Aliases: TypeAlias = str | Sequence[str]

_CLOSED = frozenset({"yes", "no", "noanswer"})
_NUMBER = re.compile(
    r"(?P<sign>[-+−]?)\s*(?P<currency>[$€£¥]?)\s*(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?P<power>e[-+]?\d{1,3})?"
    r"(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_PERCENT = frozenset({"%", "percent", "per cent"})
_SCALE = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "quadrillion": 1e15}
_SCALE |= {"dozen": 12.0, "score": 20.0, "gross": 144.0, "lakh": 1e5, "crore": 1e7, "pair": 2.0, "couple": 2.0}
_SCALE |= {f"{name}s": factor for name, factor in _SCALE.items() if name != "gross"}
_SCALE |= {"grand": 1e3, "mn": 1e6, "mio": 1e6, "mln": 1e6, "bn": 1e9, "bln": 1e9, "mrd": 1e9, "tn": 1e12, "trn": 1e12}
_SCALE |= {"permille": 1e-3, "ppm": 1e-6, "ppb": 1e-9, "bps": 1e-4}
_JOINED_SCALE = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9}
_SCALE_OF_MONEY = {"k": 1e3, "m": 1e6, "mm": 1e6, "b": 1e9, "t": 1e12}
_MONEY = frozenset("usd eur gbp jpy cny inr chf cad aud dollar dollars euro euros pound pounds yen yuan".split())
_CHANGES_NUMBER = re.compile(
    r"plus|minus|negative|not|or|ish|x|times|fold|squared|cubed|factorial|percentile|e|o|i|k|b|mil|kilo|mega|giga|milli"
    r"|centi|half|halves|quarters?|st|nd|rd|th|(?:ten|hundred|thousand|million|billion)ths?|tenths?|tens|thirds?"
    r"|fourths?|fifths?|sixths?|sevenths?|eighths?|ninths?"
)
"""Words behind a number that are no units: they change the number, or may do so. Each is equal only to itself."""


# --- text ------------------------------------------------------------------------------------------------------------


def exact_match(answer: str | None, gold: Aliases, *, faithful: bool = False) -> float | None:
    """1 if the normalised answer equals one of the normalised aliases in ``gold``, else 0; None if unmeasurable."""
    if answer is None or not _aliases(gold):
        return None
    mine = normalize(answer, faithful=faithful)
    return float(any(mine == normalize(alias, faithful=faithful) for alias in _aliases(gold)))


def token_f1(answer: str | None, gold: Aliases, *, faithful: bool = False) -> float | None:
    """``F1 = 2·common / (tokens of the answer + tokens of the alias)``, the best alias counts; None if unmeasurable.

    Tokens are the words of ``normalize`` as a bag, so repeating a word lowers F1; of scripts without spaces, letters,
    unless it is to be ``faithful``. As in HotpotQA
    (https://arxiv.org/abs/1809.09600), "yes", "no" and "noanswer" earn nothing unless both sides are equal. Two empty
    texts are equal. Becomes ``exact_match`` for one-word answers and aliases.
    """
    if answer is None or not _aliases(gold):
        return None
    mine = normalize(answer, faithful=faithful)
    aliases = [normalize(alias, faithful=faithful) for alias in _aliases(gold)]
    if not faithful:
        mine, aliases = spaced(mine), [spaced(alias) for alias in aliases]
    return max(_pair_f1(mine, alias) for alias in aliases)


def _pair_f1(mine: str, theirs: str) -> float:
    if mine == theirs:
        return 1.0
    if mine in _CLOSED or theirs in _CLOSED:
        return 0.0
    mine_tokens, their_tokens = Counter(mine.split()), Counter(theirs.split())
    common = (mine_tokens & their_tokens).total()
    return 2 * common / (mine_tokens.total() + their_tokens.total()) if common else 0.0


def _aliases(gold: Aliases) -> Sequence[str]:
    return (gold,) if isinstance(gold, str) else gold


# --- numbers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number as it was written: ``value`` before any percent sign is applied, and its unit or currency sign."""

    value: float
    percent: bool = False
    unit: str = ""


def parse_number(text: str) -> Number | None:
    """The number that ``text`` consists of; None for no number, several or an infinite one.

    Read are signs, a currency sign, commas between groups of three digits, a power of ten, "%" or "percent", words
    such as "thousand", "million", "dozen" and "lakh", a k, M or B that is joined to the digits, k, m, b and t behind
    money, and one unit of up to 20 letters ("12,500 km"). Anything else around the number, another number above all,
    makes it None: a list of guesses is not an answer.
    """
    match = _NUMBER.fullmatch(one_form(text).strip())
    if match is None:
        return None
    factor, rest = _scaled(match["rest"].rstrip(" ."), money=bool(match["currency"]))
    percent = rest.lower() in _PERCENT
    if not percent and not (re.fullmatch(r"[$€£¥]", rest) or (len(rest) <= 20 and rest.isalpha()) or not rest):
        return None
    if match["currency"] and rest and rest not in _MONEY:
        return None
    value = float(match["number"].replace(",", "") + (match["power"] or "")) * factor
    if not math.isfinite(value):
        return None
    negative = match["sign"] in ("-", "−")
    return Number(
        value=-value if negative else value, percent=percent, unit=match["currency"] or ("" if percent else rest)
    )


def _scaled(rest: str, *, money: bool) -> tuple[float, str]:
    """By what the words behind a number multiply it, and its unit, in lower case unless its case tells it apart."""
    factor, words = 1.0, rest.split()
    if money and words and (meant := _SCALE_OF_MONEY.get(words[0].lower())):
        factor, words = meant, words[1:]
    elif words and rest[:1] != " " and (joined := _JOINED_SCALE.get(words[0])):
        factor, words = joined, words[1:]
    while words and words[0].lower() in _SCALE:
        factor, words = factor * _SCALE[words[0].lower()], words[1:]
    return factor, " ".join(map(one_case, words))


def numeric_match(
    answer: str | None,
    gold: str | float,
    *,
    relative: float = 1e-6,
    absolute: float = 0.0,
    percent: Literal["fraction", "ignore"] = "fraction",
) -> float | None:
    """1 if ``|answer − gold| ≤ max(relative·|gold|, absolute)``, else 0.

    ``percent="fraction"`` reads 12.5% as 0.125, "ignore" drops the sign. Units are compared if both sides name one,
    and never converted; a word that may change the number ("12 squared", "12 k") is equal only to itself. The tolerance
    is measured at the gold value, so a huge answer does not widen it. None for the answer None or a gold that is no
    number. Defaults are ours. Raises ConfigError for a tolerance that is negative or not finite.
    """
    if not (0 <= relative < math.inf and 0 <= absolute < math.inf):
        raise ConfigError(f"relative={relative} and absolute={absolute} must be finite and at least 0")
    target = parse_number(gold) if isinstance(gold, str) else Number(value=float(gold))
    if answer is None or target is None or not math.isfinite(target.value):
        return None
    given = parse_number(answer)
    if given is None or not _same_unit(given.unit, target.unit):
        return 0.0
    mine, theirs = (n.value / 100 if n.percent and percent == "fraction" else n.value for n in (given, target))
    return float(abs(mine - theirs) <= max(relative * abs(theirs), absolute))


def _same_unit(one: str, other: str) -> bool:
    unclear = any(unit == "M" or _CHANGES_NUMBER.fullmatch(unit) for unit in (one, other))
    return one == other or (not unclear and (not one or not other))


# --- sets and lists --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of the answer is right (``precision``) and how much of the gold was found (``recall``)."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """``2PR / (P + R)``, 0 if both are 0."""
        return self.f_beta(1.0)

    @property
    def exact(self) -> float:
        """1 if nothing is missing and nothing is too much."""
        return float(self.precision == self.recall == 1.0)

    def f_beta(self, beta: float) -> float:
        """``(1 + β²)·P·R / (β²·P + R)``; β > 1 favours recall, and with it over-listing. 0 if both are 0."""
        square = beta * beta
        below = square * self.precision + self.recall
        return (1 + square) * self.precision * self.recall / below if below else 0.0


def set_overlap(answer: Iterable[str] | None, gold: Sequence[Aliases]) -> Overlap | None:
    """Answer and gold as sets of normalised texts; an item of ``gold`` may be several aliases.

    Items are paired one to one, so a second alias of the same item is one too many. Repeating an item changes
    nothing; a superset of the gold has recall 1 and a precision below 1. No items at all have precision 0. None for
    the answer None or an empty gold.
    """
    return None if answer is None else list_overlap(sorted({normalize(item) for item in answer}), gold)


def list_overlap(answer: Sequence[str] | None, gold: Sequence[Aliases], *, ordered: bool = False) -> Overlap | None:
    """As ``set_overlap``, but repetitions count: an item twice in the answer must be twice in the gold.

    ``ordered=True`` counts the longest common subsequence, so that an item at the wrong place is not found.
    """
    if answer is None or not gold:
        return None
    mine = [normalize(item) for item in answer]
    theirs = [frozenset(normalize(alias) for alias in _aliases(item)) for item in gold]
    found = _common_subsequence(mine, theirs) if ordered else _paired(mine, theirs)
    return Overlap(precision=found / len(mine) if mine else 0.0, recall=found / len(theirs))


def _paired(mine: Sequence[str], theirs: Sequence[frozenset[str]]) -> int:
    known = frozenset().union(*theirs)
    hits = [item for item in mine if item in known]
    fits = np.array([[item in aliases for item in hits] for aliases in theirs], np.float64).reshape(len(theirs), -1)
    return sum(int(fits[pair]) for pair in best_assignment(fits))


def _common_subsequence(mine: Sequence[str], theirs: Sequence[frozenset[str]]) -> int:
    best = [0] * (len(theirs) + 1)
    for item in mine:
        diagonal = 0
        for j, aliases in enumerate(theirs, 1):
            diagonal, best[j] = best[j], diagonal + 1 if item in aliases else max(best[j], best[j - 1])
    return best[-1]


# --- answers withheld ------------------------------------------------------------------------------------------------


def is_abstention(answer: str, phrases: Sequence[str] = ("", "i don't know", "unknown", "no answer")) -> bool:
    """Whether the whole answer, normalised, is one of ``phrases``; an answer that also answers does not abstain."""
    return normalize(answer) in {normalize(phrase) for phrase in phrases}


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class ExactMatch(Formula):
    """Whether the ``answer`` is the ``gold`` text or one of its aliases (a list), by ``exact_match``. No answer: 0."""

    type: Literal["exact_match"] = "exact_match"
    kind: Kind = "outcome"
    yes_or_no: ClassVar[bool] = True
    faithful: bool = False
    """Whether to use the published normalisation, under which "the" equals a gold answer "A"."""

    def grade(self, answer: str | None, gold: Aliases) -> float | None:
        """The verdict by ``exact_match``."""
        return exact_match(answer or "", gold, faithful=self.faithful)


class TokenF1(Formula):
    """How many words the ``answer`` shares with the ``gold`` text, or the nearest of its aliases, by ``token_f1``."""

    type: Literal["token_f1"] = "token_f1"
    kind: Kind = "outcome"
    faithful: bool = False
    """Whether to use the published normalisation, under which "the" equals a gold answer "A"."""

    def grade(self, answer: str | None, gold: Aliases) -> float | None:
        """The verdict by ``token_f1``."""
        return token_f1(answer or "", gold, faithful=self.faithful)


class NumericMatch(Formula):
    """Whether the ``answer`` is one number within a tolerance of a ``gold`` one, by ``numeric_match``."""

    type: Literal["numeric_match"] = "numeric_match"
    kind: Kind = "outcome"
    yes_or_no: ClassVar[bool] = True
    relative: float = 1e-6
    """Tolerance as a share of the gold number (0.01: 1 %). The wider of this and ``absolute`` counts."""
    absolute: float = 0.0
    """Tolerance in the unit of the gold number. The wider of this and ``relative`` counts."""
    percent: Literal["fraction", "ignore"] = "fraction"
    """How an answer with a percent sign is read: "fraction" reads 12.5% as 0.125, "ignore" as 12.5."""

    def grade(self, answer: str | None, gold: float | Aliases) -> float | None:
        """The best verdict by ``numeric_match``; several right answers may be written in different ways."""
        verdicts = [
            numeric_match(answer or "", one, relative=self.relative, absolute=self.absolute, percent=self.percent)
            for one in ((gold,) if isinstance(gold, int | float) else _aliases(gold))
        ]
        return max((verdict for verdict in verdicts if verdict is not None), default=None)


class ListOverlap(Formula):
    """How the list ``items`` that the agent gave agrees with ``gold_items``, each a text or a list of aliases."""

    type: Literal["list_overlap"] = "list_overlap"
    kind: Kind = "outcome"
    measure: Literal["f1", "precision", "recall", "exact"] = "f1"
    """Which measure of agreement is paid. Recall alone also pays for listing every item there is."""
    repeats: bool = False
    """Whether repetitions count: an item that is listed twice must then be in the gold twice."""
    ordered: bool = False
    """Whether the order counts: only items in the order of the gold are then found, and repetitions count too."""

    def grade(self, items: list[str], gold_items: list[Aliases]) -> float | None:
        """A figure of ``set_overlap``, or of ``list_overlap`` where repetitions or the order count."""
        if self.repeats or self.ordered:
            overlap = list_overlap(items, gold_items, ordered=self.ordered)
        else:
            overlap = set_overlap(items, gold_items)
        return None if overlap is None else float(getattr(overlap, self.measure))
