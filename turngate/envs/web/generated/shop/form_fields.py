"""The input of a page, read strictly: a query or a form is pairs of short texts in UTF-8, each name once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

FORM_TYPE = "application/x-www-form-urlencoded"
MOST_BYTES = 20_000
MOST_FIELDS = 40
MOST_CHARS = 200
"""Longest value of a field."""
_ESCAPES = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CENTS = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,2})?")


class Malformed(Exception):
    """A query or a form that no page of the shop sends."""


def fields_of(sent: bytes) -> dict[str, str]:
    """Name → value, with single blanks between its words.

    Raises Malformed for input that is too long, not UTF-8, wrongly escaped, has control characters or a name twice.
    """
    if len(sent) > MOST_BYTES:
        raise Malformed("it is too long")
    if _ESCAPES.search(sent):
        raise Malformed("it is wrongly escaped")
    try:
        pairs = parse_qsl(sent.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:  # UnicodeDecodeError too
        raise Malformed("it is not a form in UTF-8, or has too many fields") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Malformed("it says a field twice")
    for value in fields.values():
        if len(value) > MOST_CHARS:
            raise Malformed(f"a field is longer than {MOST_CHARS} characters")
        if not value.isprintable():
            raise Malformed("a field holds control characters")
    return {name: " ".join(value.split()) for name, value in fields.items()}


def whole(fields: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    """The integer of a field if it is one from ``low`` to ``high``, else None."""
    text = fields.get(name, "")
    if not re.fullmatch("[0-9]{1,6}", text):
        return None
    number = int(text)
    return number if low <= number <= high else None


def id_of(text: str) -> int | None:
    """A row's id in a path; None for anything else."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def cents(text: str) -> int | None:
    """A price such as ``12`` or ``$12.50`` in cents; None for anything else."""
    text = text.removeprefix("$")
    if not _CENTS.fullmatch(text):
        return None
    units, _, part = text.partition(".")
    return 100 * int(units) + int(part.ljust(2, "0") or 0)
