"""The values of asked tests (``inside/turngate_asking.py``), read and compared outside of the sandbox.

Pure functions. The code under test may have written the file: a record that is malformed, too large, missing, surplus
or given twice is a wrong answer and never an exception.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from turngate.envs.code.grading.folding import Approx

ITEMS = 20_000
"""Values in one answer, those in it counted."""
DEPTH = 50
MATCHED_CHARS = 2_000
"""Characters of an exception's text that are searched for a pattern: a longer text could keep the host busy."""
SAME_HASH = 50
"""Different values with one hash in a set, or among the keys of a dict."""

Answers: TypeAlias = Mapping[str, Mapping[int, Sequence[Any]]]
"""Test id → site → the answers given there, as JSON."""
Verb: TypeAlias = Literal[
    "==", "!=", "<", "<=", ">", ">=", "in", "not in", "has", "has not", "is", "is not", "true", "raises"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim of a test about one value."""

    verb: Verb
    """``has``: the value contains the one known. ``true``: it counts as ``known``, which is True or False."""
    known: Any
    """The expected value; for ``raises`` the names of exceptions, any of which will do."""
    pattern: str = ""
    """The pattern that the text of an exception has to match somewhere."""

    def holds(self, answer: Any) -> bool:
        """Whether an answer fulfils it."""
        try:
            return self._holds(answer)
        except _WRONG:
            return False

    def _holds(self, answer: Any) -> bool:
        kind, *content = answer
        if self.verb == "raises":
            if kind != "e":
                return False
            names, text = content
            return not self.known.isdisjoint(names) and re.search(self.pattern, text[:MATCHED_CHARS]) is not None
        if kind != "v":
            return False
        (encoded,) = content
        if self.verb == "true":
            truth = encoded[1] if encoded[0] == "o" else bool(decoded(encoded))
            return truth is self.known
        value = decoded(encoded)
        if self.verb in ("is", "is not"):
            return (value is self.known) is (self.verb == "is")
        return bool(_COMPARED[self.verb](value, self.known))


_WRONG: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": lambda value, known: known.fits(value) if isinstance(known, Approx) else value == known,
    "!=": lambda value, known: not known.fits(value) if isinstance(known, Approx) else value != known,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, known: value in known,
    "not in": lambda value, known: value not in known,
    "has": lambda value, known: known in value,
    "has not": lambda value, known: known not in value,
}


def read_answers(content: bytes | None) -> Answers:
    """The records of a run; none of them if one is malformed."""
    found: dict[str, dict[int, list[Any]]] = {}
    try:
        for line in (content or b"").decode().split("\n"):
            if line:
                test, site, answer = json.loads(line)
                if type(test) is not str or type(site) is not int:
                    return {}
                found.setdefault(test, {}).setdefault(site, []).append(answer)
    except (*_WRONG, MemoryError):
        return {}
    return found


def decoded(encoded: Any) -> Any:
    """The value that was handed over; an object equal to nothing else for a value that is no plain data.

    Raises ValueError, TypeError, IndexError or RecursionError for content that ``encoded`` did not write.
    """
    return _decoded(encoded, DEPTH, [ITEMS])


def _decoded(encoded: Any, depth: int, left: list[int]) -> Any:
    left[0] -= 1
    if depth < 0 or left[0] < 0:
        raise ValueError("too large")
    kind = encoded[0]
    if kind in _GROUPS:
        return _GROUPS[kind](_decoded(item, depth - 1, left) for item in encoded[1])
    if kind == "d":
        pairs = [(_decoded(key, depth - 1, left), _decoded(value, depth - 1, left)) for key, value in encoded[1]]
        _set(key for key, _ in pairs)
        return dict(pairs)
    return _ATOMS[kind](encoded)


def _complex(encoded: Any) -> complex:
    real, imaginary = encoded[1].split(" ")
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _text(encoded: Any) -> str:
    if not isinstance(encoded[1], str):
        raise TypeError("no text")
    return encoded[1]


def _set(items: Iterable[Any]) -> frozenset[Any]:
    """Raises ValueError for values chosen so that many have one hash: to compare each with each would take minutes."""
    values = list(items)
    if values and max(Counter(map(hash, values)).values()) > SAME_HASH:
        raise ValueError("too many values with one hash")
    return frozenset(values)


_GROUPS: Final[Mapping[str, Callable[[Any], Any]]] = {"l": list, "t": tuple, "S": _set}
_ATOMS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "n": lambda _encoded: None,
    "b": lambda encoded: encoded[1] is True,
    "i": lambda encoded: int(encoded[1], 16),
    "f": lambda encoded: math.nan if encoded[1] == "nan" else float.fromhex(encoded[1]),
    "s": _text,
    "y": lambda encoded: bytes.fromhex(encoded[1]),
    "c": _complex,
    "o": lambda _encoded: object(),
}
