"""The leak guard: a hint must not hold the answer, and an episode that only repeats its hint teaches nothing.

Texts are compared without regard to case, blanks and the ``+`` at the head of a line of a diff; and by their letters
and digits alone, so that no markup hides an answer that consists of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from turngate.tools.read import parse
from turngate.tools.tool import Tool

ANSWER_KEYS = ("answer", "answers", "gold", "solution", "solutions", "target")
"""Entries of ``Task.private`` that are answers by their name."""
MOST_COPIED = 0.5
"""Share of a hint's words above which an action counts as a copy of it."""
LEAST_LETTERS, FREE_LETTERS = 6, 12
"""Letters and digits from which on an answer is also found inside of other words: with the edge of a word on one side,
and with none. Shorter ones stand as whole words, because other words hold them by chance."""

_OPERATORS = re.compile(r"[+*/%<>=!&|^~@$#\\()\[\]{}]|(?<![^\W\d_])-|-(?![^\W\d_])")
_BEFORE, _AFTER = re.compile(r"(?:\w|\d\.)$"), re.compile(r"\w|\.\d")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,9}>")
_MENTION = re.compile(r"\b(?:hints?|guidance|as (?:told|suggested))\b", re.IGNORECASE)
_ADDED = re.compile(r"(?m)^[ \t]*\+")


def leaked_secret(text: str, secrets: Iterable[str], known: str = "") -> str:
    """The first of ``secrets`` that stands in ``text`` and does not stand in ``known``; "" if none.

    It stands there with its marks, as whole words (``stands``), or by its letters and digits in the same order,
    whatever marks and blanks lie between them: "**42** **apples**" and "42_appless" hold "42 apples". A secret with
    operators or brackets means something else without them, so its marks count too.
    """
    shown, before = (_texts_without_tags(one) for one in (text, known))
    for secret in secrets:
        if stands(secret, text) and not stands(secret, known):
            return secret
        letters = _Letters(secret)
        if any(letters.stand_in(one) for one in shown) and not any(letters.stand_in(one) for one in before):
            return secret
    return ""


def stands(secret: str, text: str) -> bool:
    """Whether a secret stands in a text with all its marks, as whole words."""
    wanted, plain = _plain(secret), _plain(text)
    at = plain.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        inside = (wanted[0].isalnum() and _BEFORE.search(plain[max(0, at - 2) : at])) or (
            wanted[-1].isalnum() and _AFTER.match(plain[end : end + 2])
        )
        if not inside:
            return True
        at = plain.find(wanted, at + 1)
    return False


class _Letters:
    """The letters and digits of a secret, to be looked for in texts in one pass."""

    def __init__(self, secret: str) -> None:
        self._marks = frozenset(_folded(secret)) if _OPERATORS.search(secret) else frozenset[str]()
        self._wanted = "".join(letter for letter, _, _ in self._kept(secret))
        self._length = sum(letter.isalnum() for letter in self._wanted)
        self._words = sum(begins for _, begins, _ in self._kept(secret))

    def stand_in(self, text: str) -> bool:
        """Whether a text holds them, with word edges as their number asks for, and no number as a part of another."""
        kept = self._kept(text) if self._length else []
        whole = "".join(letter for letter, _, _ in kept)
        at = whole.find(self._wanted) if kept else -1
        while at >= 0:
            end = at + len(self._wanted) - 1
            if self._fits(kept, at, end):
                return True
            at = whole.find(self._wanted, at + 1)
        return False

    def _fits(self, kept: Sequence[tuple[str, bool, bool]], at: int, end: int) -> bool:
        edges = kept[at][1] + kept[end][2]
        if self._length < LEAST_LETTERS:  # the same words, neither more nor fewer
            return edges == 2 and sum(begins for _, begins, _ in kept[at : end + 1]) == self._words
        cut = (kept[at][0].isdigit() and at > 0 and not kept[at][1] and kept[at - 1][0].isdigit()) or (
            kept[end][0].isdigit() and end + 1 < len(kept) and not kept[end][2] and kept[end + 1][0].isdigit()
        )
        return not cut and (edges >= 1 or self._length >= FREE_LETTERS)

    def _kept(self, text: str) -> list[tuple[str, bool, bool]]:
        """The letters of a text that count: (letter, whether a word begins with it, whether one ends with it). A point
        or comma between digits divides no word."""
        folded = _folded(_ADDED.sub("", text))
        inside = [
            one.isalnum() or (one in ".," and folded[at - 1 : at].isdigit() and folded[at + 1 : at + 2].isdigit())
            for at, one in enumerate(folded)
        ]
        last = len(folded) - 1
        return [
            (one, at == 0 or not inside[at - 1], at == last or not inside[at + 1])
            for at, one in enumerate(folded)
            if one.isalnum() or (one in self._marks and not one.isspace())
        ]


def leak_score(actions: Sequence[str], hint: str, secrets: Iterable[str] = ()) -> float:
    """How much of ``hint`` the actions of an episode repeat: from 0 to 1.

    ``max(LCS(action, hint)/|hint|, 1[a secret stands in the hint], 1[an action speaks of a hint])``, the largest over
    the actions. LCS is the longest common subsequence of words; words are separated by blanks (methods sheet A19). An
    empty hint has score 0 unless an action speaks of one.
    """
    words = _plain(hint).split()
    if leaked_secret(hint, secrets) or any(_MENTION.search(action) for action in actions):
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


def _folded(text: str) -> str:
    """A text without case, accents, width and invisible signs; all digits are those of ASCII."""
    if text.isascii():
        return text.lower()
    pieces = (one for one in unicodedata.normalize("NFKD", text) if unicodedata.category(one) not in ("Mn", "Cf"))
    return "".join(str(unicodedata.decimal(one, one)) for one in pieces).casefold()


def _texts_without_tags(text: str) -> list[str]:
    """A text, and the same one without simple tags such as ``<b>`` where it has any."""
    bare = _TAG.sub("", text)
    return [text] if bare == text else [text, bare]
