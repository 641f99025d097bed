"""The function that asked tests call: ``ask(site, lambda: value)`` records the value and compares nothing.

The runner says which test is running (``begin``) and where the records go (``save``): JSON lines, [test, site, answer].
An answer is ["v", value] or ["e", names of the exception's classes, its text]. A value is its kind and its content;
anything but plain data of moderate size is ["o", whether it counts as true].
"""

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator

DEPTH = 50
ITEMS = 20_000
CHARS = 1 << 20
TEXT = 4096  # of an exception: it is searched for a pattern

records: list[str] = []
tests = [""]


def begin(test: str) -> None:
    """The test that runs from here on."""
    tests[0] = test


def ask(site: int, give: Callable[[], object]) -> None:
    """Record the result or error of ``give``. Other exceptions, such as the end of the process, pass through."""
    answer: list[object]
    try:
        answer = ["v", encoded(give())]
    except Exception as error:
        answer = ["e", [item.__name__ for item in type(error).__mro__], str(error)[:TEXT]]
    records.append(json.dumps([tests[0], site, answer]))


def save(path: str) -> None:
    """Write the records, if there are any."""
    if records:
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(records))


class Opaque(Exception):
    """A value is no plain data."""


def encoded(value: object) -> list[object]:
    """A value as JSON."""
    try:
        return plain(value, DEPTH, [ITEMS, CHARS])
    except Opaque:
        return ["o", bool(value)]


def plain(value: object, depth: int, left: list[int]) -> list[object]:
    """A value of a builtin kind, or of a subclass that compares as it does. Raises Opaque."""
    left[0] -= 1
    if depth == 0 or left[0] < 0:
        raise Opaque
    kind = type(value)
    if value is None:
        return ["n"]
    if value is True or value is False:
        return ["b", value]
    for base, name, text_of in ATOMS:
        if issubclass(kind, base) and as_builtin(kind, base):
            text = text_of(value)
            left[1] -= len(text)
            if left[1] < 0:
                raise Opaque
            return [name, text]
    for group, name, items_of in GROUPS:
        if issubclass(kind, group) and as_builtin(kind, group):
            items = list(items_of(value))
            return [name, [plain(item, depth - 1, left) for item in items]]
    if isinstance(value, dict) and kind.__eq__ in DICTS:
        pairs = list(dict.items(value))
        return ["d", [[plain(key, depth - 1, left), plain(item, depth - 1, left)] for key, item in pairs]]
    raise Opaque


def as_builtin(kind: type, base: type) -> bool:
    """Whether a class compares as the builtin one that it derives from."""
    return bool(kind.__eq__ == base.__eq__)


ATOMS: tuple[tuple[type, str, Callable[..., str]], ...] = (
    (int, "i", lambda value: int.__format__(value, "x")),
    (float, "f", float.hex),
    (str, "s", lambda value: str.__str__(value)),
    (bytes, "y", bytes.hex),
    (bytearray, "y", bytearray.hex),
    (complex, "c", lambda value: f"{complex.__complex__(value).real.hex()} {complex.__complex__(value).imag.hex()}"),
)
GROUPS: tuple[tuple[type, str, Callable[..., Iterator[object]]], ...] = (
    (list, "l", list.__iter__),
    (tuple, "t", tuple.__iter__),
    (set, "S", set.__iter__),
    (frozenset, "S", frozenset.__iter__),
)
DICTS = (dict.__eq__, OrderedDict.__eq__, Counter.__eq__)  # beside a plain dict the others compare as one
