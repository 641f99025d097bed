"""DeepSeek V3.1 and later, and what V3 and R1 write: "function" before the separator, then the name and a fence.

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import Reading, ToolFormat, Unreadable, Written, add, dump, flawed, read_object
from turngate.types import ToolCall

ALL, ALL_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
ONE, ONE_END, BETWEEN = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_HEAD = re.compile(r"\s*([^<\n]*?)\s*<｜tool▁sep｜>")
_FENCED = re.compile(r"\s*([^`{<\n]+?)\s*```(?:json)?\s*")


class DeepSeek(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "deepseek"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((ONE,),)
    control: ClassVar[tuple[str, ...]] = (ALL, ALL_END, ONE, ONE_END, BETWEEN)
    form: ClassVar[str] = f"{ALL}{ONE}NAME{BETWEEN}{{ARGUMENTS}}{ONE_END}{ALL_END}"

    def begins(self, body: str) -> int:
        """Where a call begins."""
        return min((place for place in (body.find(ALL), body.find(ONE)) if place >= 0), default=-1)

    def scan(self, body: str) -> Reading:
        """One call after the other."""
        start = self.begins(body)
        thought, listed = body[:start].strip(), body.startswith(ALL, start)
        calls: list[Written] = []
        flaw = "" if listed else f"{ALL} is missing"
        at = start + (len(ALL) if listed else 0)
        while (rest := body[at:].lstrip()).startswith(ONE):
            call, at, odd = _call(body, len(body) - len(rest) + len(ONE))
            add(calls, call)
            flaw = flawed(flaw, odd)
        if not calls:
            raise Unreadable(f"{ALL} is followed by no {ONE}")
        if not rest.startswith(ALL_END):
            flaw = flawed(flaw, f"{ALL} is not closed by {ALL_END}")
        elif rest.removeprefix(ALL_END).strip():
            flaw = flawed(flaw, "text after a tool call; write nothing after it")
        return Reading(thought=thought, calls=tuple(calls), flaw=flaw)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A list of calls."""
        inner = "".join(f"{ONE}{call.name}{BETWEEN}{dump(dict(call.arguments))}{ONE_END}" for call in calls)
        return f"{ALL}{inner}{ALL_END}"


def _call(body: str, at: int) -> tuple[Written, int, str]:
    head = _HEAD.match(body, at)
    if head is None:
        raise Unreadable(f"{ONE} needs NAME{BETWEEN}{{…}}")
    name, at, fence = head.group(1), head.end(), ""
    if not body[at:].lstrip().startswith("{"):  # as V3: function, mark, name, fence
        fenced = _FENCED.match(body, at)
        if fenced is None:
            raise Unreadable(f"{ONE} needs NAME{BETWEEN}{{…}}")
        name, at, fence = fenced.group(1), fenced.end(), "```"
    arguments, at, odd = read_object(body, at)
    rest = body[at:].lstrip()
    if fence and rest.startswith(fence):
        rest = rest.removeprefix(fence).lstrip()
    if not rest.startswith(ONE_END):
        raise Unreadable(f"{ONE} is not closed by {ONE_END}")
    return Written(name=name, arguments=arguments), len(body) - len(rest) + len(ONE_END), odd
