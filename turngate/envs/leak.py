"""The leak guard: a hint must not hold the answer, and an episode that only repeats its hint teaches nothing.

Texts are compared without regard to case, blanks and the ``+`` at the head of a line of a diff.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from turngate.tools.read import parse
from turngate.tools.tool import Tool

ANSWER_KEYS = ("answer", "answers", "gold", "solution", "solutions", "target")
"""Entries of ``Task.private`` that are answers by their name."""
MOST_COPIED = 0.5
"""Share of a hint's words above which an action counts as a copy of it."""

_MENTION = re.compile(r"\b(?:hints?|guidance|as (?:told|suggested))\b", re.IGNORECASE)
_ADDED = re.compile(r"(?m)^[ \t]*\+")


def held(text: str, secrets: Iterable[str], known: str = "") -> str:
    """The first of ``secrets`` that stands in ``text`` as whole words and does not stand in ``known``; "" if none."""
    shown, before = _plain(text), _plain(known)
    for secret in secrets:
        wanted = _plain(secret)
        if wanted and _stands(wanted, shown) and not _stands(wanted, before):
            return secret
    return ""


def leak_score(actions: Sequence[str], hint: str, secrets: Iterable[str] = ()) -> float:
    """How much of ``hint`` the actions of an episode repeat: from 0 to 1.

    ``max(LCS(action, hint)/|hint|, 1[a secret stands in the hint], 1[an action speaks of a hint])``, the largest over
    the actions. LCS is the longest common subsequence of words; words are separated by blanks (methods sheet A19). An
    empty hint has score 0 unless an action speaks of one.
    """
    words = _plain(hint).split()
    if held(hint, secrets) or any(_MENTION.search(action) for action in actions):
        return 1.0
    if not words:
        return 0.0
    return max((common(words, _plain(action).split()) / len(words) for action in actions), default=0.0)


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence: one pass over ``other``, the words of ``one`` as the bits of a number
    (Hyyrö 2004, "Bit-parallel LCS-length computation revisited")."""
    places: dict[str, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(one)) - 1
    open_ = every
    for word in other:
        met = open_ & places.get(word, 0)
        open_ = ((open_ + met) | (open_ - met)) & every
    return len(one) - open_.bit_count()


def secrets_of(
    private: Mapping[str, object], solutions: Iterable[Sequence[str]], tools: Sequence[Tool]
) -> tuple[str, ...]:
    """Texts that give a task away: its private entries of the names in ``ANSWER_KEYS``, and what the last call of each
    solution that has arguments was told (without tools: the last action)."""
    found = [text for key in ANSWER_KEYS for text in _texts(private.get(key))]
    found += [text for actions in solutions if (text := _decisive(actions, tools))]
    return tuple(dict.fromkeys(found))


def _decisive(actions: Sequence[str], tools: Sequence[Tool]) -> str:
    for action in reversed(actions):
        if not tools:
            return action
        told = [str(value) for call in parse(action, tools).calls for value in call.arguments.values()]
        if any(told):
            return " ".join(told)
    return ""


def _texts(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    known = isinstance(value, str | int | float) and not isinstance(value, bool)
    return [str(value)] if known else []


def _plain(text: str) -> str:
    return " ".join(_ADDED.sub("", text).lower().split()).rstrip(";")


def _stands(wanted: str, text: str) -> bool:
    before = r"(?<!\w)(?<!\d\.)" if wanted[0].isalnum() else ""
    after = r"(?!\w)(?!\.\d)" if wanted[-1].isalnum() else ""
    return re.search(before + re.escape(wanted) + after, text) is not None
