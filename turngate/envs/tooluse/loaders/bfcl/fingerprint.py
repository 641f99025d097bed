"""Fingerprints of BFCL's services: equal where they hold the same, on every machine and in every process."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping


def fingerprint(attributes: Mapping[str, object]) -> str:
    """A short text for the attributes of a service. The classes of the wheel print their contents, except clock times,
    which would differ with every run; a folder is identified by its contents and its place."""
    words = (f"{name}={_spelt(value)}" for name, value in attributes.items())
    return hashlib.blake2b("\x1f".join(words).encode(errors="replace"), digest_size=8).hexdigest()


def _spelt(value: object) -> str:
    if isinstance(value, random.Random):
        return str(hash(value.getstate()[1]))
    if isinstance(value, set):
        return repr(sorted(value, key=repr))
    place = ""
    above = getattr(value, "parent", None)
    while above is not None:
        place, above = f"{above.name}/{place}", above.parent
    return f"{place}{value!r}"
