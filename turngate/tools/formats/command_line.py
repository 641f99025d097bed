"""A command line, ``run_sql SELECT 1``: the name, then the arguments; the last parameter takes the rest of the text, so
nothing needs quoting. For people and for tiny models. Which words are which arguments depends on the tool, so they are
read by the types of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import Reading, ToolFormat, Written, dump
from turngate.types import ToolCall

REST = ""
"""Key of the words that are not assigned to parameters yet."""


class CommandLine(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "command_line"
    form: ClassVar[str] = "NAME ARGUMENTS"

    def begins(self, body: str) -> int:
        """Any text may be one, if it is nothing else."""
        return len(body)

    def scan(self, body: str) -> Reading:
        """One call, with its arguments in one piece."""
        name, *rest = body.split(None, 1)
        return Reading(calls=(Written(name=name, arguments={REST: rest[0].strip() if rest else ""}, untyped=True),))

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One call; ValueError for several."""
        if len(calls) != 1:
            raise ValueError(f"a command line holds one call, not {len(calls)}")
        values = (value if isinstance(value, str) else dump(value) for value in calls[0].arguments.values())
        return " ".join([calls[0].name, *values])
