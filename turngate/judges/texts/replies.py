"""Reads a judge's reply strictly: either a verdict that can be used or a named fault. Never a guess.

A reply that cannot be used is never a no and never a yes; it becomes missing evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from turngate.judges.texts.prompts import Question
from turngate.judges.texts.verdicts import Answer, Critique, Fault, PairScores, Quote, Verdict
from turngate.rewards.fence import is_quoted, whole
from turngate.rewards.no_verdict import FaultKind
from turngate.types import JSON, storable

TOP_SCORE = 10.0
SHARES = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
"""The value of a nugget by its label (ours; Search-Gen-V has the labels, https://arxiv.org/abs/2510.14660)."""
QuoteRule: TypeAlias = Literal["decisive", "always"]


def read_answer(question: Question, text: str, *, quotes: QuoteRule = "decisive") -> Answer:
    """The answer in the reply ``text``.

    The reply is one JSON object, with nothing but a closed ``<think>`` block or prose without braces around it; keys
    that appear twice, NaN and numbers out of range are malformed. It names the question's nonce, which only the judge
    can have written, and a verdict in favour of the work must not stand in the work. A yes has a score above 5 and a no
    at most 5. Every quote must stand in the named turn. "decisive": a yes, a winner or a wrong step needs one, because
    absence cannot be quoted; "always": each verdict does (a tie still does not).
    """
    try:
        data = _object(text)
        if data.pop("id", None) != question.nonce:
            raise _malformed(f"'id' must be \"{question.nonce}\"")
        if data.get("verdict") == "invalid":
            return Fault(kind=FaultKind.INVALID, detail="the judge says that the work cannot be judged")
        answer = _READERS[question.kind](question, data, quotes == "always")
        if _favours(answer) and any(_holds(turn, data) for turns in question.turns for turn in turns):
            raise _malformed("the verdict stands in the data; give one of your own")
        return answer
    except _Bad as bad:
        return bad.fault


def read_object(text: str) -> dict[str, JSON] | Fault:
    """The JSON object in the reply ``text``, read as strictly as that of a verdict, or the fault of the reply."""
    try:
        return _object(text)
    except _Bad as bad:
        return bad.fault


def is_refusal(text: str) -> bool:
    """Whether a reply without any JSON declines to answer."""
    body = _THOUGHT.sub("", text)
    return "{" not in body and _REFUSAL.match(body.strip()) is not None


def _favours(answer: Answer) -> bool:
    """Whether an answer favours the work. Only such an answer is worth planting; if others could be discarded too, the
    work could void the verdicts that it would lose by."""
    if isinstance(answer, Verdict):
        return answer.passed
    if isinstance(answer, PairScores):
        return answer.first != answer.second
    return isinstance(answer, Critique) and not any(answer.bad_T)


def _holds(shown: str, data: Mapping[str, Any]) -> bool:
    """Whether a JSON object equal to ``data`` stands in shown text, as it was written."""
    text, decoder = whole(shown), json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            found, end = None, start + 1
        if isinstance(found, dict) and {key: value for key, value in found.items() if key != "id"} == data:
            return True
        start = text.find("{", end)
    return False


# --- pieces of a reply ------------------------------------------------------------------------------------------------

_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_REFUSAL = re.compile(
    r"(?:i(?:'|’)?m (?:very )?sorry|sorry|i apologi[sz]e|i (?:cannot|can(?:'|’)t|am unable to|won(?:'|’)t|must decline)"
    r"|as an ai)\b",
    re.IGNORECASE,
)


class _Bad(Exception):
    """Leaves the readers with a fault; never leaves this module."""

    def __init__(self, kind: FaultKind, detail: str) -> None:
        super().__init__(detail)
        self.fault = Fault(kind=kind, detail=detail)


def _malformed(detail: str) -> _Bad:
    return _Bad(FaultKind.MALFORMED, detail)


def _object(text: str) -> dict[str, Any]:
    """The reply's only JSON object: the first brace opens it and no brace follows it.

    Searching further in would find an object that stands in a quote, so text of the transcript could become a verdict.
    """
    body = _THOUGHT.sub("", text)
    if body.lstrip().startswith("<think>"):
        raise _malformed("the thought has no end")  # a draft inside it is no verdict
    start = body.find("{")
    if start < 0:
        raise _malformed("no JSON object")
    try:
        decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
        found, end = decoder.raw_decode(body, start)
        data = _kept(found)
    except RecursionError:
        raise _malformed("JSON that is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _malformed(f"not JSON: {error.msg}") from None
    except ValueError:
        raise _malformed("a number with too many digits") from None
    if "{" in body[end:] or "}" in body[end:]:
        raise _malformed("more than one JSON object")
    assert isinstance(data, dict)
    return data


def _kept(value: Any) -> Any:
    """A JSON value whose texts can be stored: a JSON escape can write half of a character, which no file takes."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_kept(one) for one in value]
    return {storable(key): _kept(one) for key, one in value.items()} if isinstance(value, dict) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _malformed("a key appears twice")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise _malformed(f"{name} is no number")


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= TOP_SCORE:
        raise _malformed(f"'{key}' must be a number from 0 to {TOP_SCORE:g}")
    return float(value)


def _entries(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _malformed(f"'{key}' must be a list of objects")
    return entries


def _turn(entry: Mapping[str, Any], n_turns: int) -> int:
    turn = entry.get("turn")
    if isinstance(turn, bool) or not isinstance(turn, int) or not 0 <= turn < n_turns:
        raise _malformed("'turn' must be the number of a turn")
    return turn


def _quotes(question: Question, data: Mapping[str, Any]) -> tuple[Quote, ...]:
    """The quotes under "evidence", each found in its turn."""
    found: list[Quote] = []
    for entry in _entries(data, "evidence"):
        item = 0
        if question.kind == "pairwise":
            if entry.get("answer") not in ("A", "B"):
                raise _malformed("'answer' must be A or B")
            item = "AB".index(entry["answer"])
        found.append(_quote(question, entry, _turn(entry, len(question.turns[item])), item))
    return tuple(found)


def _quote(question: Question, entry: Mapping[str, Any], turn: int, item: int = 0) -> Quote:
    text = entry.get("quote")
    if not isinstance(text, str):
        raise _malformed("'quote' must be text")
    if not is_quoted(text, question.turns[item][turn]):
        raise _Bad(FaultKind.UNQUOTED, f"a quote is not in turn {turn} word for word, or is too short")
    return Quote(turn=turn, text=text, item=item)


def _need(quotes: tuple[Quote, ...], needed: bool) -> tuple[Quote, ...]:
    if needed and not quotes:
        raise _Bad(FaultKind.UNQUOTED, "a verdict without a quote")
    return quotes


def _read_verdict(question: Question, data: Mapping[str, Any], always: bool) -> Verdict:
    said, score = data.get("verdict"), _number(data, "score")
    if said not in ("yes", "no"):
        raise _malformed("'verdict' must be yes, no or invalid")
    passed = said == "yes"
    if passed != (score > TOP_SCORE / 2):
        raise _malformed("verdict and score contradict each other")
    quotes = _need(_quotes(question, data), passed or always)
    return Verdict(passed=passed, score=score / TOP_SCORE, quotes=quotes)


def _read_support(question: Question, data: Mapping[str, Any], always: bool) -> Verdict:
    """A label as a verdict: its share is the score, and only none at all is a no."""
    label = data.get("label")
    if not isinstance(label, str) or label not in SHARES:
        raise _malformed(f"'label' must be one of {', '.join(SHARES)}")
    share = SHARES[label]
    return Verdict(passed=share > 0, score=share, quotes=_need(_quotes(question, data), share > 0 or always))


def _read_pair(question: Question, data: Mapping[str, Any], always: bool) -> PairScores:
    first, second = _number(data, "a"), _number(data, "b")
    return PairScores(first=first, second=second, quotes=_need(_quotes(question, data), first != second))


def _read_critique(question: Question, data: Mapping[str, Any], always: bool) -> Critique:
    n_turns = len(question.turns[0])
    bad_T: list[bool | None] = [None] * n_turns
    quotes: list[Quote] = []
    for entry in _entries(data, "steps"):
        turn = _turn(entry, n_turns)
        if entry.get("verdict") not in ("ok", "wrong") or bad_T[turn] is not None:
            raise _malformed("each step needs one verdict, ok or wrong")
        bad_T[turn] = entry["verdict"] == "wrong"
        if bad_T[turn] or always or entry.get("quote"):
            quotes.append(_quote(question, entry, turn))
    if n_turns and all(bad is None for bad in bad_T):
        raise _malformed("no step was judged")
    return Critique(bad_T=tuple(bad_T), quotes=tuple(quotes))


_READERS: dict[str, Callable[[Question, Mapping[str, Any], bool], Answer]] = {
    "pointwise": _read_verdict,
    "pairwise": _read_pair,
    "steps": _read_critique,
    "support": _read_support,
}
