"""Nuggets: the single pieces of information that a long answer should hold, as a task carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from turngate.errors import DataError
from turngate.types import JSON

Importance: TypeAlias = Literal["vital", "okay"]


class Nugget(TypedDict):
    """A statement that the answer should make. vital: it has to be there; okay: it is good to have."""

    text: str
    importance: Importance


def nuggets_of(path: Path, line: int, value: JSON) -> tuple[Nugget, ...]:
    """The nuggets of a row: texts, which are vital, or {"text": …, "importance": "vital" or "okay"}.

    Raises DataError, with the line, for anything else, for the same text twice and for nothing vital.
    """
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DataError(path, f"must be a list of statements, not {value!r:.60}", line=line, field="nuggets")
    found = [_nugget(path, line, one) for one in value]
    texts = [nugget["text"] for nugget in found]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise DataError(path, f"holds '{twice[0][:60]}' twice", line=line, field="nuggets")
    if found and all(nugget["importance"] == "okay" for nugget in found):
        raise DataError(path, "has no vital statement; mark one so", line=line, field="nuggets")
    return tuple(found)


def nugget_text(nugget: Mapping[str, JSON]) -> str:
    """The statement, as a sentence."""
    text = " ".join(str(nugget["text"]).split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _nugget(path: Path, line: int, value: JSON) -> Nugget:
    table: Mapping[str, JSON] = {"text": value} if isinstance(value, str) else value if isinstance(value, dict) else {}
    text, importance = table.get("text"), table.get("importance", "vital")
    if not isinstance(text, str) or not text.strip():
        raise DataError(path, f"holds {value!r:.60}, which is no statement", line=line, field="nuggets")
    match importance:
        case "vital" | "okay":
            return Nugget(text=text.strip(), importance=importance)
    raise DataError(path, f"importance is {importance!r:.40}; it must be vital or okay", line=line, field="nuggets")
