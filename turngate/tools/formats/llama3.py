"""Llama 3.1 to 3.3: the whole turn is ``{"name": …, "parameters": {…}}``, several with ``;`` between them; a model may
write ``<|python_tag|>`` before, and end a call with ``<|eom_id|>`` in place of ``<|eot_id|>``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import (
    Reading,
    ToolFormat,
    Written,
    add,
    call_of,
    dump,
    flawed,
    read_object,
)
from turngate.types import ToolCall

TAG = "<|python_tag|>"
_OBJECT = re.compile(r'\A\s*\{\s*"(?:name|type|parameters|arguments)"')


class Llama3(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "llama3"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((TAG,), ('"parameters":', "ipython"))
    control: ClassVar[tuple[str, ...]] = (TAG,)
    ends: ClassVar[tuple[str, ...]] = ("<|eom_id|>", "<|eot_id|>")
    form: ClassVar[str] = '{"name": NAME, "parameters": {ARGUMENTS}}'

    def begins(self, body: str) -> int:
        """Where the tag stands; 0 if the text is an object with a name."""
        return 0 if _OBJECT.match(body) else body.find(TAG)

    def scan(self, body: str) -> Reading:
        """One object after the other, up to the end."""
        before, rest = ("", body) if _OBJECT.match(body) else body.split(TAG, 1)
        calls: list[Written] = []
        flaw, at = "", 0
        while True:
            data, at, odd = read_object(rest, at)
            call, misnamed = call_of(data, "parameters")
            add(calls, call)
            flaw = flawed(flaw, odd, misnamed)
            after = rest[at:].lstrip()
            if not after.startswith(";"):
                break
            at = len(rest) - len(after) + 1
        if after:
            flaw = flawed(flaw, "text after a tool call; write nothing after it")
        return Reading(thought=before.strip(), calls=tuple(calls), flaw=flaw)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """Objects with ``; `` between them."""
        return "; ".join(dump({"name": call.name, "parameters": dict(call.arguments)}) for call in calls)
