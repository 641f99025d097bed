"""Tool calls against gold ones: names, parameter names and values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Literal

import numpy as np

from turngate.errors import ShapeError
from turngate.rewards.outcome.answers import Aliases, exact_match
from turngate.rewards.outcome.assignment import best_assignment
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.outcome.normal_form import keys_in_one_form, normalize, one_form, without_case
from turngate.rewards.parts import Kind, Span
from turngate.types import ToolCall

_PLAIN_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,3})?")


def toolrl(
    predicted: Sequence[ToolCall],
    gold: Sequence[ToolCall] | None,
    *,
    malformed: int = 0,
    well_formed: bool = True,
    faithful: bool = False,
) -> float | None:
    """ToolRL: ``format + correctness`` in [−3, 4], with format 1 if ``well_formed`` else 0.

    Default: ``correctness = 6q − 3`` with ``q = call_quality(predicted, gold, malformed=malformed)``. A call too many
    costs as much as a call missing, listing k guesses pays no more on average than one guess, a call that could not be
    parsed (``malformed`` counts them) is one call wasted, and making no call where none is needed is right (+3).

    ``faithful=True`` (https://arxiv.org/abs/2504.13958 and its released code): the exact list earns +3, one malformed
    call −3 whatever else was written, a gold without calls 0. Otherwise ``6·S/S_max − 3`` with
    ``S = J(names) + Σ_gold max [J(parameter names) + #equal values]`` over unused predicted calls of the same name,
    taken greedily in the order of the gold, ``S_max = 1 + Σ_gold (1 + #parameters)`` and ``J = Σmin/Σmax`` on
    multisets. Ten useless calls beside the right one then cost only 1.36 of 6. None if ``gold`` is None.
    """
    if malformed < 0:
        raise ShapeError(f"malformed is {malformed}; it counts calls, so it must be at least 0")
    if gold is None:
        return None
    if faithful:
        return float(well_formed) + _published(predicted, gold, malformed)
    quality = call_quality(predicted, gold, malformed=malformed)
    return float(well_formed) + 6 * quality - 3


def call_quality(predicted: Sequence[ToolCall], gold: Sequence[ToolCall], *, malformed: int = 0) -> float:
    """``q = Σ_pairs s / max(#gold, #predicted + malformed)`` in [0, 1] over the best one-to-one pairing; order is free.

    ``s = (1 + J + V) / 3`` for calls of one name, else 0: J is the Jaccard index of their parameter names, V the share
    of parameters (in either call) with equal values; both are 1 without parameters. Values are compared with
    ``same_value``. Two empty lists have q = 1. k calls for one gold call earn ``max(s) / k``, which is never more than
    the mean of the k single guesses.
    """
    most = max(len(gold), len(predicted) + malformed)
    if not most:
        return 1.0
    fit = np.array([[_similarity(mine, theirs) for mine in predicted] for theirs in gold])
    fit = fit.reshape(len(gold), len(predicted))
    return float(sum(fit[pair] for pair in best_assignment(fit))) / most


def same_value(mine: object, theirs: object) -> bool:
    """Whether two argument values mean the same: 5 = 5.0 = "5", " Rome" = "rome", lists and objects item by item.

    Texts are compared in one form of their letters, digits, quotes and dashes (``one_form``): "café" is the same word
    composed and decomposed, "Straße" is "STRASSE", "１２" is 12. Nothing else is left out of them. Keys are compared
    so, too, with their case.
    Booleans equal booleans and the words "true" and "false", never 0 and 1.
    """
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        mine, theirs = keys_in_one_form(mine), keys_in_one_form(theirs)
        return mine.keys() == theirs.keys() and all(same_value(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, list | tuple) and isinstance(theirs, list | tuple):
        return len(mine) == len(theirs) and all(map(same_value, mine, theirs))
    return bool(_plain(mine) == _plain(theirs))


def _plain(value: object) -> object:
    """Numbers as decimals, because floats would make neighbouring long identifiers equal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return Decimal(repr(value)) if math.isfinite(value) else value
    if isinstance(value, str):
        text = " ".join(one_form(value).split())
        return Decimal(text) if _PLAIN_NUMBER.fullmatch(text) else without_case(text)
    return value


def _similarity(mine: ToolCall, theirs: ToolCall) -> float:
    if mine.name != theirs.name:
        return 0.0
    union = mine.arguments.keys() | theirs.arguments.keys()
    if not union:
        return 1.0
    shared = mine.arguments.keys() & theirs.arguments.keys()
    equal = sum(same_value(mine.arguments[name], theirs.arguments[name]) for name in shared)
    return (1 + len(shared) / len(union) + equal / len(union)) / 3


# --- the published form ----------------------------------------------------------------------------------------------


def _published(predicted: Sequence[ToolCall], gold: Sequence[ToolCall], malformed: int) -> float:
    if not gold:
        return 0.0
    if malformed:
        return -3.0
    if list(predicted) == list(gold):
        return 3.0
    score = _jaccard([call.name for call in predicted], [call.name for call in gold])
    unused = list(predicted)
    for theirs in gold:
        rated = [(_published_pair(mine, theirs), mine) for mine in unused if mine.name == theirs.name]
        if rated:
            points, mine = max(rated, key=lambda pair: pair[0])
            score += points
            unused.remove(mine)
    return float(6 * score / (1 + sum(1 + len(call.arguments) for call in gold)) - 3)


def _published_pair(mine: ToolCall, theirs: ToolCall) -> float:
    equal = sum(name in mine.arguments and mine.arguments[name] == value for name, value in theirs.arguments.items())
    return _jaccard(list(mine.arguments), list(theirs.arguments)) + int(equal)


def _jaccard(mine: Sequence[str], theirs: Sequence[str]) -> float:
    a, b = Counter(mine), Counter(theirs)
    most = (a | b).total()
    return (a & b).total() / most if most else 1.0


# --- FTRL ------------------------------------------------------------------------------------------------------------


def ftrl_calls(n_calls: int, n_solved: int, *, solvable: int | None = None, faithful: bool = False) -> float:
    """FTRL's reward of a turn with ``n_calls ≥ 1`` calls that answered ``n_solved`` sub-questions: in [0, 1].

    Default: ``min(1, 2s / (n + max(solvable, s, 1)))``, the F1 of precision s/n and recall s/solvable; ``solvable``
    says how many sub-questions could be answered at this point (default: those that were). It becomes the published
    form for s ≤ 1. ``faithful=True`` (https://arxiv.org/abs/2508.08791, released code): ``2s / (n + 1)``, whose recall
    is the count s itself: two answers from two calls earn 1.33, and spare calls beside them are free.
    Raises ShapeError for counts that cannot be.
    """
    if n_calls < 1 or n_solved < 0 or (solvable is not None and solvable < n_solved):
        raise ShapeError(
            f"n_calls={n_calls}, n_solved={n_solved}, solvable={solvable}: need calls, and solved ≤ solvable"
        )
    if faithful:
        return 2 * n_solved / (n_calls + 1)
    return min(1.0, 2 * n_solved / (n_calls + max(solvable or 0, n_solved, 1)))


def ftrl_answer(
    text: str | None, gold: Aliases, unsolved: int, *, stray_tags: bool = False, faithful: bool = False
) -> float | None:
    """FTRL's reward of a turn without calls, in [−0.5, 1]: the final answer, given ``unsolved`` open sub-questions.

    Empty: −0.5. Remains of tool syntax (``stray_tags``): −0.3. Right: ``1 / (1 + unsolved)``. Wrong: 0.5 if all
    sub-questions are solved, else 0. "Right" is ``exact_match`` of the answer; published (``faithful=True``,
    https://arxiv.org/abs/2508.08791, released code) it is enough that the gold occurs in the text, so a list of
    candidates is right. In both, a wrong answer after solving everything (0.5) pays as much as a right one with one
    sub-question open, so gate it on the outcome. None if the text is None or there is no gold.
    """
    golds = (gold,) if isinstance(gold, str) else gold
    if unsolved < 0:
        raise ShapeError(f"unsolved is {unsolved}; it counts sub-questions, so it must be at least 0")
    if text is None or not golds:
        return None
    if not text.strip():
        return -0.5
    if stray_tags:
        return -0.3
    contained = any(normalize(alias) in normalize(text) for alias in golds)
    right = contained if faithful else exact_match(text, golds)
    return 1 / (1 + unsolved) if right else (0.5 if not unsolved else 0.0)


# --- parts of a rubric -----------------------------------------------------------------------------------------------


class ToolRL(Formula):
    """How the tool calls of an episode agree with the gold ones, by ``toolrl``: −3 to 4.

    ``calls`` and ``gold_calls`` are lists of {"name": …, "arguments": {…}}. ``malformed`` counts calls that could not
    be parsed, ``well_formed`` says whether the reply kept to its format; both may be left out.
    """

    type: Literal["toolrl"] = "toolrl"
    kind: Kind = "outcome"
    low: float = -3.0
    high: float = 4.0
    faithful: bool = False
    """Whether to use the published form, under which ten useless calls beside the right one cost 1.36 of 6."""

    def grade(
        self, calls: list[ToolCall], gold_calls: list[ToolCall], malformed: int = 0, well_formed: bool = True
    ) -> float | None:
        """``toolrl``."""
        return toolrl(calls, gold_calls, malformed=malformed, well_formed=well_formed, faithful=self.faithful)


class FtrlCalls(Formula):
    """How well the ``n_calls`` calls of a turn answered sub-questions (``n_solved``), by ``ftrl_calls``.

    ``solvable`` says how many sub-questions could be answered in the turn and may be left out. Turns without calls earn
    nothing here.
    """

    type: Literal["ftrl_calls"] = "ftrl_calls"
    per_turn: bool = True
    published: ClassVar[Span] = (0.0, 2.0)
    faithful: bool = False
    """Whether to use the published form, which pays two answers from two calls 1.33 and needs high = 2."""

    def grade(self, n_calls: int, n_solved: int, solvable: int | None = None) -> float | None:
        """The verdict by ``ftrl_calls``."""
        return ftrl_calls(n_calls, n_solved, solvable=solvable, faithful=self.faithful) if n_calls else None


class FtrlAnswer(Formula):
    """The final ``answer`` against ``gold``, given how many sub-questions are ``unsolved``, by ``ftrl_answer``.

    ``stray_tags`` says whether it holds remains of tool syntax, and may be left out.
    """

    type: Literal["ftrl_answer"] = "ftrl_answer"
    kind: Kind = "outcome"
    low: float = -0.5
    faithful: bool = False
    """Whether to use the published form: the gold text somewhere in the answer is enough."""

    def grade(self, answer: str | None, gold: Aliases, unsolved: int, stray_tags: bool = False) -> float | None:
        """The verdict by ``ftrl_answer``."""
        return ftrl_answer(answer or "", gold, unsolved, stray_tags=stray_tags, faithful=self.faithful)
