"""Hermes, Qwen 2.5, Qwen 3 and others: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, one block a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import (
    Reading,
    ToolFormat,
    Unreadable,
    Written,
    add,
    call_of,
    dump,
    flawed,
    read_object,
)
from turngate.types import ToolCall

BEGIN, END = "<tool_call>", "</tool_call>"
_BEGINS = re.compile(r"<tool_call>(?!\s*<function=)")


class Hermes(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "hermes"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((BEGIN,),)
    control: ClassVar[tuple[str, ...]] = (BEGIN, END)
    form: ClassVar[str] = '<tool_call>\n{"name": NAME, "arguments": {ARGUMENTS}}\n</tool_call>'

    def begins(self, body: str) -> int:
        """Where the first block begins that is no XML (see ``qwen_coder``)."""
        found = _BEGINS.search(body)
        return -1 if found is None else found.start()

    def scan(self, body: str) -> Reading:
        """Each block is read as JSON from its beginning, so a mark inside of a string ends nothing."""
        calls: list[Written] = []
        flaw = ""
        first = at = self.begins(body)
        while at >= 0:
            call, end, odd = _block(body, at + len(BEGIN))
            add(calls, call)
            following = body.find(BEGIN, end)
            between = body[end : following if following >= 0 else len(body)]
            flaw = flawed(flaw, odd, "text after a tool call; write it before" if between.strip() else "")
            at = following
        return Reading(thought=body[:first].strip(), calls=tuple(calls), flaw=flaw)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One block a call."""
        blocks = (dump({"name": call.name, "arguments": dict(call.arguments)}) for call in calls)
        return "\n".join(f"{BEGIN}\n{block}\n{END}" for block in blocks)


def _block(body: str, start: int) -> tuple[Written, int, str]:
    """One call, the end of its block, and its flaw ("" = none)."""
    try:
        data, end, odd = read_object(body, start)
    except Unreadable:
        if END not in body[start:]:
            raise Unreadable(f"{BEGIN} is not closed by {END}") from None
        raise
    call, misnamed = call_of(data)
    rest = body[end:].lstrip()
    if rest.startswith(END):
        return call, len(body) - len(rest) + len(END), flawed(odd, misnamed)
    if rest:
        raise Unreadable(f"tool call is followed by {rest[:20]!r} before {END}; write one JSON object in each block")
    return call, len(body), flawed(odd, misnamed, f"{BEGIN} is not closed by {END}")
