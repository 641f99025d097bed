"""Fingerprints of objects: equal where they hold the same, on every machine and in every process."""

from __future__ import annotations

import datetime
import hashlib
import random
from collections.abc import Mapping


def fingerprint(*values: object) -> str:
    """A short text for what ``values`` hold. Objects count by their attributes, each object once, also where it holds
    itself; times of the clock do not count, because they differ with every run."""
    words: list[str] = []
    known: dict[int, int] = {}
    for value in values:
        _spell(value, words, known)
    return hashlib.blake2b("\x1f".join(words).encode(errors="replace"), digest_size=8).hexdigest()


def _spell(value: object, words: list[str], known: dict[int, int]) -> None:
    if value is None or isinstance(value, bool | int | float | str):
        words.append(f"{type(value).__name__[0]}{value}")
    elif isinstance(value, Mapping):
        words.append(f"{{{len(value)}")
        for key, item in value.items():
            words.append(str(key))
            _spell(item, words, known)
    elif isinstance(value, list | tuple):
        words.append(f"[{len(value)}")
        for item in value:
            _spell(item, words, known)
    elif isinstance(value, set | frozenset):
        _spell(sorted(value, key=repr), words, known)
    elif isinstance(value, datetime.datetime):
        words.append("time")
    elif isinstance(value, random.Random):
        words.append(str(hash(value.getstate()[1])))
    elif id(value) in known:
        words.append(f"#{known[id(value)]}")
    else:
        known[id(value)] = len(known)
        words.append(type(value).__name__)
        _spell(vars(value), words, known)
