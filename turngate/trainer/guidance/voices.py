"""Texts that speak in another voice: no text that a model wrote for the agent may do that.

What an agent is shown has an author, and reads as one text. A text that begins a turn of the system or of the user,
that has marks of chat templates, thoughts or tool calls in it, or tells its reader to forget other instructions, claims
to come from another one. No list of such forms is complete: they are those that models know from their training.
"""

from __future__ import annotations

import re
import unicodedata

from turngate.rewards.fence import addresses_judge, break_marks, visible
from turngate.tools.formats import TOOL_FORMATS

_NAMES = "system|developer|assistant|user|human|tool"
_BEFORE = r"(?:^[-*#>\[(<_\"'`~ \t]*|[^\w\s'-][ \t]*)"
"""The beginning of a line, or the end of a sentence or of one of its parts: "the user: …" is no turn."""
_TURN = re.compile(
    rf"{_BEFORE}(?:{_NAMES})(?: (?:message|prompt|note|turn|instructions?))?[\])*_\"'`~]{{0,4}} ?:"
    r"|[\[<]/?(?:system|developer|assistant|human)[\]>]"
    r"|^#{2,} ?(?:instruction|response|input|output|system|user|assistant)\b",
    re.IGNORECASE | re.MULTILINE,
)
_CAPITALS = re.compile(rf"\b(?:{_NAMES.upper()}) ?:")
_CALL_MARKS = sorted(
    {unicodedata.normalize("NFKC", mark) for one in TOOL_FORMATS.values() for mark in (*one.control, *one.ends)}
)
_FRAMED = [one for one in TOOL_FORMATS.values() if one.marks]


def other_voice(text: str) -> bool:
    """Whether ``text`` speaks in another voice, or addresses its reader as injections do."""
    if any(one.begins(text) >= 0 for one in _FRAMED):
        return True
    plain = unicodedata.normalize("NFKC", visible(text))
    return (
        break_marks(plain) != plain
        or any(mark in plain for mark in _CALL_MARKS)
        or _TURN.search(plain) is not None
        or _CAPITALS.search(plain) is not None
        or addresses_judge(plain)
    )
