"""Checks the observations and evidence of an environment before they are recorded.

A value that cannot be recorded, such as an observation that is no text, raises ``Unfit``; ``TurnEnv`` turns it into an
EnvError that names class and turn, and the episode is unusable; a whole number that grew too long (``TooLong``) ends it
as the agent's fault. Where a value can be converted without changing its meaning, it is converted and a note is kept:

* numpy scalars and arrays become Python numbers and lists;
* lone surrogates, which neither tokenizers nor files accept, become ``?``;
* the text of an observation is cut after ``most`` characters, with a mark that says how many are missing.

``TurnEnv.conversions`` holds the notes, and ``turngate check`` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from turngate.types import JSON, Action, Evidence, Observation, ToolCall, storable

Note: TypeAlias = Callable[[str], None]
"""A function that is called with a sentence about each conversion."""

DEPTH = 64
"""Most levels of nesting in the value of a fact; JSON parsers that read it back stop at about a thousand."""
BITS = 10_000
"""Most bits of a whole number in a fact; Python reads back no more than 4,300 digits."""
_PLAIN = (bool, int, float, type(None))
_SHORT = frozenset({bool, float, type(None)})
_BY = ("env", "verifier", "judge")


class Unfit(Exception):
    """A value cannot be recorded; the message says what it is and what it must be."""


class TooLong(Unfit):
    """A whole number is too long to be recorded. An agent's calls can cause that."""


def observation(handed: object, note: Note, *, most: int) -> Observation:
    """The observation, with its text cut to ``most`` characters and lone surrogates replaced. Raises Unfit."""
    if type(handed) is Observation and type(handed.images) is tuple and not handed.images and _is_short(handed, most):
        return handed
    if not isinstance(handed, Observation):
        raise Unfit(f"the observation is {_shown(handed)}; it must be an Observation")
    for name, value in (("text", handed.text), ("state_key", handed.state_key)):
        if not isinstance(value, str):
            raise Unfit(f"the {name} of an observation is {_shown(value)}; it must be text")
    images = handed.images
    if not isinstance(images, Sequence) or not all(isinstance(image, bytes) for image in images):
        raise Unfit(f"the images of an observation are {_shown(images)}; they must be a tuple of bytes")
    text = _text(handed.text, "the text of an observation", note)
    if len(text) > most:
        note(f"an observation of more than {most:,} characters was cut; shorten it, or raise observation_chars")
        text = storable(text, most)
    key = _text(handed.state_key, "the state_key of an observation", note)
    if text is handed.text and key is handed.state_key and isinstance(images, tuple):
        return handed
    return Observation(text=text, images=tuple(images), state_key=key)


def evidence(handed: object, note: Note) -> tuple[Evidence, ...]:
    """The facts, each with a name and a value that JSON can represent. Raises Unfit."""
    if not isinstance(handed, Iterable) or isinstance(handed, str | bytes | Mapping):
        raise Unfit(f"the evidence is {_shown(handed)}; it must be a tuple of Evidence")
    facts = handed if isinstance(handed, tuple) else tuple(handed)
    if type(facts) is tuple and _are_plain(facts):
        return facts
    checked = tuple([_fact(fact, note) for fact in facts])
    same = all(one is other for one, other in zip(facts, checked, strict=True))
    return facts if same else checked


def action(handed: object) -> Action:
    """The action that a caller passes to ``step`` as an object, if its fields have the right types. Raises Unfit."""
    if not isinstance(handed, Action):
        raise Unfit(f"the action is {_shown(handed)}; it must be text or an Action")
    for name, value in (("text", handed.text), ("thought", handed.thought), ("parse_error", handed.parse_error)):
        if not isinstance(value, str) and not (name == "parse_error" and value is None):
            raise Unfit(f"the {name} of the action is {_shown(value)}; it must be text")
    if not isinstance(handed.calls, Sequence) or not all(isinstance(call, ToolCall) for call in handed.calls):
        raise Unfit(f"the calls of the action are {_shown(handed.calls)}; they must be a tuple of ToolCall")
    return handed


def _fact(fact: object, note: Note) -> Evidence:
    if not isinstance(fact, Evidence):
        raise Unfit(f"the evidence holds {_shown(fact)}; it must hold Evidence only")
    if not isinstance(fact.name, str) or not fact.name:
        raise Unfit(f"the name of a fact is {_shown(fact.name)}; it must be text, and not empty")
    where = f"evidence '{fact.name:.80}'"
    if fact.by not in _BY:
        raise Unfit(f"{where} has by={_shown(fact.by)}; it must be 'env', 'verifier' or 'judge'")
    if not isinstance(fact.turn, int | np.integer | None) or isinstance(fact.turn, bool):
        raise Unfit(f"{where} has turn={_shown(fact.turn)}; it must be the number of a turn, or None")
    name = _text(fact.name, "the name of a fact", note)
    turn = int(fact.turn) if isinstance(fact.turn, np.integer) else fact.turn
    value = _json(fact.value, where, note, DEPTH)
    if value is fact.value and turn is fact.turn and name is fact.name:
        return fact
    return replace(fact, name=name, value=value, turn=turn)


def _is_short(seen: Observation, most: int) -> bool:
    """Fast check: whether an observation without images needs no conversion."""
    text, key = seen.text, seen.state_key
    return type(text) is str and type(key) is str and text.isascii() and key.isascii() and len(text) <= most


def _are_plain(facts: tuple[object, ...]) -> bool:
    """Fast check: whether facts need no conversion; environments return many."""
    for fact in facts:
        if type(fact) is not Evidence or type(fact.name) is not str or not fact.name.isascii() or not fact.name:
            return False
        if fact.by not in _BY or (fact.turn is not None and type(fact.turn) is not int):
            return False
    return _are_plain_values([fact.value for fact in facts], DEPTH)  # type: ignore[attr-defined]


def _are_plain_values(values: Iterable[object], depth: int) -> bool:
    """Whether values are Python's own that JSON has, of ASCII text and short numbers, lists of these included."""
    for value in values:
        kind = type(value)
        if kind is str:
            if not value.isascii():  # type: ignore[attr-defined]
                return False
        elif kind is int:
            if value.bit_length() > BITS:  # type: ignore[attr-defined]
                return False
        elif kind is list:
            if not depth or not _are_plain_values(value, depth - 1):  # type: ignore[arg-type]
                return False
        elif kind not in _SHORT:
            return False
    return True


def _json(value: object, where: str, note: Note, depth: int) -> JSON:
    """``value`` itself where it can be kept as it is."""
    if isinstance(value, np.generic | np.ndarray):  # before the rest: np.float64 is a float, and np.str_ a text
        note(f"{where} holds a numpy {value.dtype}, which is converted; hand over a plain Python value")
        return _json(value.tolist(), where, note, depth)
    if isinstance(value, int) and value.bit_length() > BITS:
        raise TooLong(f"{where} holds a whole number of {value.bit_length()} bits; at most {BITS} can be kept")
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, str):
        return _text(value, where, note)
    if not depth:
        raise Unfit(f"{where} is nested more than {DEPTH} levels deep; hand over something flatter")
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise Unfit(f"{where} has the key {_shown(odd[0])}; keys must be text")
        found = {_text(key, where, note): _json(part, where, note, depth - 1) for key, part in value.items()}
        same = all(found.get(key) is part for key, part in value.items())
        return value if same and isinstance(value, dict) else found
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        parts = [_json(part, where, note, depth - 1) for part in value]
        same = all(one is other for one, other in zip(parts, value, strict=True))
        return value if same and isinstance(value, list | tuple) else parts
    raise Unfit(
        f"{where} holds {_shown(value)}; it must be a value that JSON has: None, bool, number, text, list, or dict "
        "with text as keys"
    )


def _text(text: str, what: str, note: Note) -> str:
    kept = storable(text)
    if kept is text:
        return text
    note(f"{what} holds a lone surrogate, which is replaced by '?'; decode bytes with errors='replace'")
    return kept


def _shown(value: object) -> str:
    return "None" if value is None else f"{value!r:.80} ({type(value).__name__})"
