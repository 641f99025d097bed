"""Which parts of a text are thought: a call in a thought is not carried out.

A thought stands between its marks, wherever that is. A template may have opened it in the prompt, so what stands before
a closing mark that nothing opened is thought too. A mark inside of a call's values is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from turngate.tools.formats.base import THOUGHT, UNCLOSED_THOUGHT, ToolFormat, Unreadable

MOST_MARKS = 64
"""Most marks of thoughts beside calls, or in their values; with more of them, reading would take too long."""
OPEN, CLOSE = THOUGHT
_MARK = re.compile(r"</?think>")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Parted:
    """A text without its thoughts. ``tool_format``: that of its first call; None: it frames none."""

    thought: str
    body: str
    tool_format: ToolFormat | None
    flaw: str = ""


def parted(text: str, first: Callable[[str], tuple[int, ToolFormat | None]]) -> Parted:
    """Thoughts and body of ``text``. ``first``: where the first framed call of a text begins, and in which tool format.

    Raises Unreadable for a thought before the first call that never ends, and for more than ``MOST_MARKS``.
    """
    at = before = 0
    for _ in range(MOST_MARKS):
        if (opened := after_opened(text, at)) is None:
            raise Unreadable(UNCLOSED_THOUGHT)
        at = opened
        place, tool_format = first(text[at:])
        end = _last_thought(text, at, len(text) if tool_format is None else at + place, framed=tool_format is not None)
        if end > at:
            at = end
            continue
        if tool_format is None:
            return Parted(_words(text[before:at]), text[at:], None)
        end, body, flaw = _beside_calls(text, at, place, tool_format)
        if not end:
            return Parted(_words(text[before:at]), body, tool_format, flaw)
        at = end
    raise Unreadable(f"more than {MOST_MARKS} thoughts in one turn; think once, before the call")


def after_opened(text: str, at: int = 0) -> int | None:
    """Where the thoughts end that ``text`` has at ``at``, one after the other; None if the last is not closed."""
    while text.startswith(OPEN, begin := _SPACE.match(text, at).end()):  # type: ignore[union-attr]  # matches anything
        close = text.find(CLOSE, begin)
        if close < 0:
            return None
        at = close + len(CLOSE)
    return at


def _last_thought(text: str, at: int, until: int, *, framed: bool) -> int:
    """Where the last thought ends that begins between ``at`` and ``until``; ``at`` if there is none. Where no call is
    framed, a command may hold marks that open, as text."""
    end = seen = at
    while (mark := _MARK.search(text, seen, until)) is not None:
        if mark[0] == CLOSE:
            end = seen = mark.end()
            continue
        close = text.find(CLOSE, mark.end())
        if close < 0:
            if framed:
                raise Unreadable(UNCLOSED_THOUGHT)
            break
        seen = close + len(CLOSE)
        end = seen if framed else end
    return end


def _beside_calls(text: str, at: int, place: int, tool_format: ToolFormat) -> tuple[int, str, str]:
    """Reads the marks behind the first call, at ``place`` of the body. Returns where the thought ends that the call
    stands in, 0 = in none; the body without the thoughts behind calls; and a flaw."""
    body, seen, flaw = text[at:], place, ""
    for _ in range(MOST_MARKS):
        mark = _MARK.search(body, seen)
        if mark is None:
            return 0, body, flaw
        if not _is_whole(body[: mark.start()], tool_format):  # inside of a value
            seen = mark.end()
        elif mark[0] == CLOSE:
            return (at + mark.end(), "", "") if not flaw else (len(text), "", "")
        else:
            close = body.find(CLOSE, mark.end())
            body = body[: mark.start()] + (body[close + len(CLOSE) :] if close >= 0 else "")
            seen, flaw = mark.start(), "a thought behind a tool call; think before it"
    raise Unreadable(f"more than {MOST_MARKS} marks of thoughts in one turn; write fewer")


def _is_whole(body: str, tool_format: ToolFormat) -> bool:
    try:
        tool_format.scan(body)
    except Unreadable:
        return False
    return True


def _words(thought: str) -> str:
    return "\n".join(filter(None, (part.strip() for part in _MARK.split(thought))))
