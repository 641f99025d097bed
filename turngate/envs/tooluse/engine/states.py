"""States of tool worlds as plain values, and the differences between two of them.

A state is a JSON value. Its *leaves* are the values that hold no others, each at a *path*: the keys and places that
lead to it. Two states differ in the leaves that only one of them has, or that have another value.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import TypeAlias
from uuid import UUID

import numpy as np
from pydantic import BaseModel

from turngate.errors import EnvError
from turngate.foreign import text_of
from turngate.types import JSON

Path: TypeAlias = tuple[str, ...]
ANY = "*"
"""Step of a pattern that fits every key and place."""
MOST_DEEP = 64
"""Most levels of a state."""
_PLAIN = frozenset((str, int, float, bool, type(None)))
_SPELLING = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


_AS_TEXT = (date, time, timedelta, tzinfo, Decimal, Fraction, UUID, PurePath, complex, range)
"""Types of values whose text is their whole content."""


class StateTooLarge(EnvError):
    """A state is nested too deeply, or holds a number that is too long. Calls can cause that, unlike a value of a type
    that JSON does not have."""


def as_json(value: object, depth: int = 0) -> JSON:
    """``value`` as JSON: tuples as lists, sets sorted, keys as text, objects as their attributes.

    Dates, decimals, UUIDs and the like become their text, bytes hexadecimal digits, numbers and arrays of numpy
    those of Python.

    Raises EnvError for a value that has no such form, such as an open file, and for one that holds itself;
    StateTooLarge for one that is nested more than ``MOST_DEEP`` levels deep.
    """
    if type(value) in _PLAIN or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value  # type: ignore[return-value]  # the types that JSON has
    if depth > MOST_DEEP:
        if _holds_itself(value):
            raise EnvError(f"the state of the world holds a {type(value).__name__} that holds itself")
        raise StateTooLarge(f"the state of the world is nested more than {MOST_DEEP} deep")
    if isinstance(value, Mapping):
        return {
            str(key): item if type(item) in _PLAIN else as_json(item, depth + 1)  # most are: a call would take longer
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [as_json(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((as_json(item, depth + 1) for item in value), key=spelled)
    if isinstance(value, Enum):
        return as_json(value.value, depth + 1)
    if isinstance(value, BaseModel):
        return as_json(value.model_dump(mode="json"), depth + 1)
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, np.generic | np.ndarray):
        return as_json(value.tolist(), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return as_json(named, depth + 1)
    if hasattr(value, "__dict__") and not callable(value):
        return as_json(vars(value), depth + 1)
    raise EnvError(
        f"the state of the world holds {text_of(value):.60}, a {type(value).__name__}, which cannot be compared; make "
        "it of tables, lists, texts, numbers, dates and objects that hold such values"
    )


def _holds_itself(value: object) -> bool:
    """Whether a way from ``value`` through what it holds leads back to it."""
    open_, seen = [value], set[int]()
    while open_:
        held = open_.pop()
        items: Iterable[object]
        if isinstance(held, Mapping):
            items = held.values()
        elif isinstance(held, list | tuple | set | frozenset):
            items = held
        else:
            items = getattr(held, "__dict__", {}).values()
        for item in items:
            if item is value:
                return True
            if type(item) not in _PLAIN and id(item) not in seen:
                seen.add(id(item))
                open_.append(item)
    return False


def spelled(state: JSON) -> str:
    """One text for equal states, and only for those. Raises StateTooLarge for a number that Python cannot spell."""
    try:
        return _SPELLING.encode(state)
    except ValueError as error:
        raise StateTooLarge("the state of the world holds a whole number of thousands of digits") from error


def leaves(state: JSON) -> dict[Path, JSON]:
    """Path → value of every leaf. An empty table or list is a leaf, so that emptying one is seen."""
    return dict(_leaves(state, ()))


def changes(before: JSON, after: JSON) -> frozenset[Path]:
    """The paths at which two states differ. 1 and 1.0 are equal, 1 and true are not."""
    found: set[Path] = set()
    _compare(before, after, (), found)
    return frozenset(found)


def _compare(one: JSON, other: JSON, path: Path, found: set[Path]) -> None:
    """Add the paths below ``path`` at which two values differ; equal parts are not walked through leaf by leaf."""
    if one is other:
        return
    mine, theirs = _parts(one), _parts(other)
    if mine is None and theirs is None:
        if one != other or isinstance(one, bool) is not isinstance(other, bool):
            found.add(path)
    elif mine is None or theirs is None:
        found.add(path)
        found.update(below for below, _ in _leaves(one if theirs is None else other, path))
    else:
        for key in mine.keys() | theirs.keys() if mine.keys() != theirs.keys() else mine:
            step = (*path, key)
            if key in mine and key in theirs:
                _compare(mine[key], theirs[key], step, found)
            else:
                found.update(below for below, _ in _leaves(mine[key] if key in mine else theirs[key], step))


def _leaves(value: JSON, path: Path) -> Iterator[tuple[Path, JSON]]:
    parts = _parts(value)
    if parts is None:
        yield path, value
    else:
        for key, item in parts.items():
            yield from _leaves(item, (*path, key))


def _parts(value: JSON) -> Mapping[str, JSON] | None:
    """The values that ``value`` holds; None if it is a leaf."""
    if type(value) is dict:
        return value or None
    if isinstance(value, Mapping) and value:
        return value
    if isinstance(value, list) and value:
        return {str(place): item for place, item in enumerate(value)}
    return None


def outside(paths: Iterable[Path], patterns: Iterable[Path]) -> frozenset[Path]:
    """Those of ``paths`` that lie below none of ``patterns``. A step ``*`` of a pattern fits every key."""
    known = tuple(patterns)
    return frozenset(path for path in paths if not any(_below(path, pattern) for pattern in known))


def found_at(state: JSON, path: Path) -> tuple[bool, JSON]:
    """Whether there is a value at ``path``, and the value."""
    value = state
    for step in path:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value


def path_of(text: str) -> Path:
    """The path that a task writes as ``orders.A1.status``."""
    return tuple(text.split("."))


def _below(path: Path, pattern: Path) -> bool:
    return len(path) >= len(pattern) and all(want in (step, ANY) for step, want in zip(path, pattern, strict=False))
