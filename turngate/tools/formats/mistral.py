"""Mistral: ``[TOOL_CALLS]`` and then a list, ``[{"name": …, "arguments": {…}}]``, or, since the tokenizer's version 11,
``[TOOL_CALLS]NAME[ARGS]{…}`` for each call."""

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

BEGIN, ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"
_NAME = re.compile(r"\s*([^\[\]{}\s]+)\s*(\[CALL_ID\][^\[]*)?(\[ARGS\])?\s*(?=\{)")


class Mistral(ToolFormat):
    """The list, which older models write; both are read."""

    name: ClassVar[str] = "mistral"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((BEGIN,),)
    control: ClassVar[tuple[str, ...]] = (BEGIN, ARGUMENTS)
    form: ClassVar[str] = '[TOOL_CALLS] [{"name": NAME, "arguments": {ARGUMENTS}}]'

    def begins(self, body: str) -> int:
        """Where the mark stands."""
        return body.find(BEGIN)

    def scan(self, body: str) -> Reading:
        """A list, or calls one after the other."""
        at = body.index(BEGIN)
        thought, at = body[:at].strip(), at + len(BEGIN)
        calls, end, flaw = _list(body, at) if body[at:].lstrip().startswith("[") else _chain(body, at)
        if body[end:].strip():
            flaw = flawed(flaw, "text after a tool call; write nothing after it")
        return Reading(thought=thought, calls=tuple(calls), flaw=flaw)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """A list."""
        return f"{BEGIN} {dump([{'name': call.name, 'arguments': dict(call.arguments)} for call in calls])}"


class Mistral11(Mistral):
    """One mark a call."""

    name: ClassVar[str] = "mistral_11"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((BEGIN, ARGUMENTS),)
    form: ClassVar[str] = "[TOOL_CALLS]NAME[ARGS]{ARGUMENTS}"

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One call after the other."""
        return "".join(f"{BEGIN}{call.name}{ARGUMENTS}{dump(dict(call.arguments))}" for call in calls)


def _list(body: str, at: int) -> tuple[list[Written], int, str]:
    calls: list[Written] = []
    flaw, at = "", body.index("[", at) + 1
    while True:
        data, at, odd = read_object(body, at)
        call, misnamed = call_of(data)
        add(calls, call)
        flaw = flawed(flaw, odd, misnamed)
        rest = body[at:].lstrip()
        at = len(body) - len(rest) + 1
        if rest.startswith("]"):
            return calls, at, flaw
        if not rest.startswith(","):
            raise Unreadable(f"the list after {BEGIN} is not closed by ]")


def _chain(body: str, at: int) -> tuple[list[Written], int, str]:
    calls: list[Written] = []
    flaw = ""
    while True:
        found = _NAME.match(body, at)
        if found is None:
            raise Unreadable(f"{BEGIN} needs NAME{ARGUMENTS}{{…}} or a list of calls")
        arguments, at, odd = read_object(body, found.end())
        add(calls, Written(name=found.group(1), arguments=arguments))
        flaw = flawed(flaw, odd, "" if found.group(3) else f"{ARGUMENTS} is missing before the arguments")
        rest = body[at:].lstrip()
        if not rest.startswith(BEGIN):
            return calls, at, flaw
        at = len(body) - len(rest) + len(BEGIN)
