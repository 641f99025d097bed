"""Qwen 3 Coder: XML in a block, values bare between their tags.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

A value may hold anything but the end of its own parameter followed by another tag. Where it does, the rest of it stands
after the call with an end that has no beginning, and nothing is carried out: what was read of the value is cut short.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import Reading, ToolFormat, Unreadable, Written, add, dump, flawed
from turngate.types import ToolCall

BEGIN, END = "<tool_call>", "</tool_call>"
_BEGINS = re.compile(r"(?:<tool_call>\s*)?<function=([^<>\n]*)>")
_PARAMETER = re.compile(
    r"\s*<parameter=([^>\n]*)>\n?(.*?)\n?</parameter>(?=\s*(?:<parameter=|</function>|\Z))", re.DOTALL
)
_END = re.compile(r"\s*</function>(\s*</tool_call>)?")


class QwenCoder(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "qwen_coder"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ((BEGIN, "<function="),)
    control: ClassVar[tuple[str, ...]] = (BEGIN, END)
    form: ClassVar[str] = (
        "<tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>"
    )

    def begins(self, body: str) -> int:
        """Where a function begins in a block, or where a block belongs."""
        found = _BEGINS.search(body)
        return -1 if found is None else found.start()

    def scan(self, body: str) -> Reading:
        """One block after the other."""
        calls: list[Written] = []
        flaw = ""
        found = _BEGINS.search(body)
        assert found is not None  # ``begins`` said so
        thought = body[: found.start()].strip()
        while found is not None:
            call, end, odd = _function(body, found.group(1).strip(), found.end())
            opened = found.group(0).startswith(BEGIN)
            add(calls, call)
            found = _BEGINS.search(body, end)
            between = body[end : found.start() if found else len(body)]
            if "</parameter>" in between or "</function>" in between:
                raise Unreadable("a value holds </parameter> before another tag, so its end is unclear; write it apart")
            flaw = flawed(
                flaw,
                odd,
                "" if opened else f"a function outside of {BEGIN}",
                "text after a tool call; write it before" if between.strip() else "",
            )
        return Reading(thought=thought, calls=tuple(calls), flaw=flaw)

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One block a call; values that are no text as JSON."""
        return "\n".join(_block(call) for call in calls)


def _function(body: str, name: str, at: int) -> tuple[Written, int, str]:
    arguments: dict[str, str] = {}
    while (found := _PARAMETER.match(body, at)) is not None:
        key = found.group(1).strip()
        if key in arguments:
            raise Unreadable(f"tool call names the parameter '{key}' twice; write each once")
        arguments[key] = found.group(2)
        at = found.end()
    closed = _END.match(body, at)
    if closed is None:
        rest = body[at:].strip()
        if rest.startswith("<parameter="):
            raise Unreadable("<parameter=…> is not closed by </parameter>")
        raise Unreadable("<function=…> is not closed by </function>")
    flaw = "" if closed.group(1) else f"{BEGIN} is not closed by {END}"
    return Written(name=name, arguments=arguments, untyped=True), closed.end(), flaw


def _block(call: ToolCall) -> str:
    values = {key: value if isinstance(value, str) else dump(value) for key, value in call.arguments.items()}
    lines = [f"<parameter={key}>\n{value}\n</parameter>" for key, value in values.items()]
    return "\n".join([BEGIN, f"<function={call.name}>", *lines, "</function>", END])
