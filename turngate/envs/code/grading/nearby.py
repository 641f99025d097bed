"""Values near a value, of the same kind and written in the same way."""

from __future__ import annotations

import ast
import re
from random import Random

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SIMPLE = re.compile(r"""(?P<quote>['"])(?P<text>[^'"\\\n{}]*)(?P=quote)""")


def other_literal(text: str, rng: Random, slack: float | None = 0.0) -> str:
    """Another literal of the same kind. ``slack``: how far a number may be off and still count; None: unknown."""
    match value := ast.literal_eval(f"({text})"):
        case bool():
            return repr(not value)
        case int():
            return _other_int(value, rng, slack)
        case float():
            return _other_float(value, text, rng, slack)
        case str():
            return _quoted(text, _other_text(value, rng))
        case bytes():
            return repr(_other_text(value.decode("latin-1"), rng).encode("latin-1"))
        case []:
            return rng.choice(["[0]", "[1]", "[None]"])
        case ():
            return rng.choice(["(0,)", "(1,)", "(None,)"])
        case {}:
            return rng.choice(["{0: 0}", "{1: 1}"])
    return rng.choice(["0", "1", "False", "''", "[]"])  # for None


def other_order(source: bytes, spans: list[tuple[int, int]], rng: Random) -> bytes:
    """A display of items that are not all the same, with two of them swapped, one doubled or one dropped.

    ``spans``: where its items stand in ``source``.
    """
    texts = [source[low:high] for low, high in spans]
    kind = rng.choice(["swapped", "doubled", "dropped"])
    if kind == "doubled":
        low, high = rng.choice(spans)
        return source[:high] + b", " + source[low:high] + source[high:]
    if kind == "dropped" and len(spans) > 2:
        number = rng.randrange(len(spans) - 1)
        return source[: spans[number][0]] + source[spans[number + 1][0] :]
    pairs = [(i, j) for i in range(len(texts)) for j in range(i) if texts[i] != texts[j]][:1000]
    later, earlier = rng.choice(pairs)
    (a, b), (c, d) = spans[earlier], spans[later]
    return source[:a] + texts[later] + source[b:c] + texts[earlier] + source[d:]


def _other_int(value: int, rng: Random, slack: float | None) -> str:
    step = int(3 * abs(value) + 3 if slack is None else 2 * max(slack, slack * abs(value)))
    digits = str(abs(value))
    if not slack and len(digits) > 1 and rng.random() < 0.5:
        place = rng.randrange(1, len(digits))
        digit = rng.choice([digit for digit in "0123456789" if digit != digits[place]])
        return ("-" if value < 0 else "") + digits[:place] + digit + digits[place + 1 :]
    return repr(value + rng.choice([-1, 1]) * (step + rng.randint(1, 3)))


def _other_float(value: float, text: str, rng: Random, slack: float | None) -> str:
    if value != value or abs(value) > 1e300:
        return rng.choice(["0.0", "1.0"])
    far = 3 * abs(value) + 3 if slack is None else 2 * max(slack, slack * abs(value))
    decimals = len(text.partition(".")[2]) if re.fullmatch(r"-?[0-9]*\.[0-9]*", text) else 1
    unit = 10.0 ** -min(decimals, 3)
    moved = value + rng.choice([-1, 1]) * (far + max(unit, 0.01 * abs(value)) * rng.randint(1, 3))
    written = f"{moved:.{decimals}f}" if 0 < decimals <= 12 else repr(moved)
    return written if abs(float(written) - value) > max(far, 1e-5 * abs(value)) else repr(moved)


def _other_text(value: str, rng: Random) -> str:
    """One character changed, dropped or doubled."""
    if not value:
        return rng.choice(_LETTERS)
    place = rng.randrange(len(value))
    char = value[place]
    kind = rng.choice(["changed", "dropped", "doubled"])
    if kind == "changed":
        pool = "0123456789" if char.isdigit() else _LETTERS.upper() if char.isupper() else _LETTERS
        return value[:place] + rng.choice([other for other in pool if other != char]) + value[place + 1 :]
    return value[:place] + value[place + 1 :] if kind == "dropped" else value[:place] + char + value[place:]


def _quoted(text: str, value: str) -> str:
    """A text written with the quotes of another literal, where that is possible."""
    simple = _SIMPLE.fullmatch(text)
    quote = simple["quote"] if simple else ""
    return f"{quote}{value}{quote}" if quote and quote not in value and "\\" not in value else repr(value)
