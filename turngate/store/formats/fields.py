"""The fields of a record from another program: each is checked when it is read, and those left unread are named.

Nothing in such a record is trusted. Its text becomes storable, its size and depth are bounded, and a value of the wrong
kind is a ``BadRecord`` that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from turngate.types import FloatArray, IntArray, storable

Plain: TypeAlias = Any
"""A JSON value from another program, of which nothing is known before it is checked."""
MAX_DEPTH = 64
"""Lists and objects nested deeper than that are refused."""
MAX_MESSAGES = 10_000
"""Most messages or steps of one episode."""
_NUL = "\0"


class BadRecord(ValueError):
    """A record that cannot be taken; the message says which field and why. The caller adds file and line."""


class Fields:
    """An object of a record. ``where`` is how messages call it, such as "message 3"; "" for the record itself.

    ``unread`` has the keys that were not read, so that a reader can say which fields it left out.
    """

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, Mapping):
            raise BadRecord(f"{where or 'the record'} is {_kind(value)}, expected an object")
        self._value, self._where, self._read = value, where, set[str]()

    @property
    def unread(self) -> tuple[str, ...]:
        """Keys with a value that was not read."""
        return tuple(key for key, value in self._value.items() if key not in self._read and value not in (None, [], {}))

    @property
    def plain(self) -> dict[str, Plain]:
        """The object as it is."""
        return dict(self._value)

    def has(self, key: str) -> bool:
        """Whether there is a value."""
        return self._value.get(key) is not None

    def any(self, key: str) -> Plain:
        """The value as it is; None if there is none."""
        self._read.add(key)
        return self._value.get(key)

    def peek(self, key: str) -> Plain:
        """The value as it is, which then still counts as unread."""
        return self._value.get(key)

    def ignore(self, *keys: str) -> None:
        """Count these as read: they are left behind on purpose."""
        self._read.update(keys)

    def text(self, key: str, default: str | None = None) -> str:
        """A text; a whole number is taken as one, since ids often are."""
        value = self.any(key)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return value if isinstance(value, str) else self._wrong(key, value, "text")

    def number(self, key: str) -> float | None:
        """A finite number, or true and false as 1 and 0; None if there is none."""
        value = self.any(key)
        if value is None:
            return None
        if not isinstance(value, bool | int | float):
            self._wrong(key, value, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise BadRecord(f"{self._name(key)} is {value!r:.40}, which is no finite number")
        return number

    def whole(self, key: str, default: int) -> int:
        """A whole number that fits 64 bits."""
        value = self.any(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
            self._wrong(key, value, "a whole number of 64 bits")
        return int(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self.any(key)
        if value is None:
            return default
        return value if isinstance(value, bool) else self._wrong(key, value, "true or false")

    def table(self, key: str) -> Fields:
        """An object; an empty one if there is none."""
        value = self.any(key)
        return Fields({} if value is None else value, self._name(key))

    def list(self, key: str, default: Sequence[Plain] | None = None) -> list[Plain]:
        """A list."""
        value = self.any(key)
        if value is None and default is not None:
            return list(default)
        return value if isinstance(value, list) else self._wrong(key, value, "a list")

    def ids(self, key: str) -> IntArray | None:
        """Token ids, int32[K]; None if there are none."""
        value = self.any(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(one) is int and 0 <= one < 2**31 for one in value):
            self._wrong(key, value, "a list of token ids, whole numbers from 0")
        return np.array(value, np.int32)

    def numbers(self, key: str) -> FloatArray | None:
        """Numbers such as log-probabilities, float32[K]; None if there are none."""
        value = self.any(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(one) in (int, float) for one in value):
            self._wrong(key, value, "a list of numbers")
        with np.errstate(over="ignore"):
            return np.array(value, np.float64).astype(np.float32)

    def _name(self, key: str) -> str:
        return f"field '{key}' of {self._where}" if self._where else f"field '{key}'"

    def _wrong(self, key: str, value: object, expected: str) -> Plain:
        if value is None:
            raise BadRecord(f"{self._name(key)} is missing, expected {expected}")
        raise BadRecord(f"{self._name(key)} is {_kind(value)}, expected {expected}")


def clean_texts(value: Plain, *, texts: bool = True) -> tuple[Plain, int]:
    """A JSON value whose texts every file takes, and how many texts were changed for that.

    A lone surrogate becomes "?", a NUL U+FFFD; without ``texts`` they stay, and depth alone is checked. Raises
    BadRecord for what is nested deeper than ``MAX_DEPTH``.
    """
    changed = 0

    def clean(one: Plain, depth: int) -> Plain:
        nonlocal changed
        if isinstance(one, str):
            if not texts:
                return one
            kept = storable(one).replace(_NUL, "\ufffd")
            changed += kept != one
            return kept
        if not isinstance(one, dict | list):
            return one
        if depth == MAX_DEPTH:
            raise BadRecord(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(one, dict):
            return {clean(key, depth): clean(item, depth + 1) for key, item in one.items()}
        if one and type(one[0]) in (int, float):  # token ids and log-probabilities, which are long
            return one if all(type(item) in (int, float) for item in one) else [clean(item, depth + 1) for item in one]
        return [clean(item, depth + 1) for item in one]

    return clean(value, 0), changed


def _kind(value: object) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return "missing" if value is None else f"{names.get(type(value), type(value).__name__)} ({value!r:.40})"
