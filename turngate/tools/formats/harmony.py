"""Harmony, which GPT-OSS writes: thoughts in the channel ``analysis``, a call as a message to ``functions.NAME``.

    <|channel|>analysis<|message|>THOUGHT<|end|><|start|>assistant<|channel|>commentary to=functions.NAME
    <|constrain|>json<|message|>{…}<|call|>

The message ends the turn, so there is one call a turn. ``<|call|>`` ends a turn with a call and ``<|return|>`` any
other; ``<|end|>`` ends a message, after which the model goes on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from turngate.tools.formats.base import Reading, ToolFormat, Unreadable, Written, dump, flawed, read_object
from turngate.types import ToolCall

MESSAGE, END, CALL, START, CHANNEL = "<|message|>", "<|end|>", "<|call|>", "<|start|>", "<|channel|>"
RETURN = "<|return|>"
_TO = re.compile(r"to=functions\.([^\s<]*)")


class Harmony(ToolFormat):
    """See the module."""

    name: ClassVar[str] = "harmony"
    marks: ClassVar[tuple[tuple[str, ...], ...]] = (("<|channel|>",),)
    control: ClassVar[tuple[str, ...]] = (MESSAGE, END, CALL, START, CHANNEL, "<|constrain|>")
    ends: ClassVar[tuple[str, ...]] = (CALL, RETURN)
    goes_on: ClassVar[tuple[str, ...]] = (END,)
    form: ClassVar[str] = f"{CHANNEL}commentary to=functions.NAME <|constrain|>json{MESSAGE}{{ARGUMENTS}}{CALL}"

    def begins(self, body: str) -> int:
        """0 if the text begins with a message in a channel, as all do in this tool format; else −1."""
        return 0 if body.lstrip().startswith((CHANNEL, f"{START}assistant", "to=functions.")) else -1

    def end(self, text: str) -> str:
        """A mark of its own after a call."""
        try:
            return CALL if self.scan(text).calls else RETURN
        except Unreadable:
            return RETURN

    def split(self, text: str) -> tuple[str, str]:
        """The channels tell thoughts from calls, so ``scan`` does."""
        return "", text

    def scan(self, body: str) -> Reading:
        """The messages in their order; a call that stands in a thought is part of the thought."""
        thoughts: list[str] = []
        rest, flaw = body, ""
        while rest.strip():
            head, found, content = rest.partition(MESSAGE)
            if not found:
                raise Unreadable(f"{CHANNEL} is followed by no {MESSAGE}")
            if wanted := _TO.search(head):
                call, flaw = _call(wanted.group(1), head, content)
                return Reading(thought="\n".join(thoughts), calls=(call,), flaw=flaw)
            said, ended, rest = content.partition(END)
            thoughts.append(said.strip())
            if not ended:
                break
        raise Unreadable("no call after the thoughts; write one to functions.NAME in the channel commentary")

    def write(self, calls: Sequence[ToolCall]) -> str:
        """One call; ValueError for several."""
        if len(calls) != 1:
            raise ValueError(f"a turn in harmony holds one call, not {len(calls)}")
        head = f"{CHANNEL}commentary to=functions.{calls[0].name} <|constrain|>json"
        return f"{head}{MESSAGE}{dump(dict(calls[0].arguments))}"


def _call(name: str, head: str, content: str) -> tuple[Written, str]:
    arguments, end, odd = read_object(content, 0)
    after = content[end:].strip()
    return (
        Written(name=name, arguments=arguments),
        flawed(
            odd,
            "" if "commentary" in head else "a call outside of the channel commentary",
            "" if after in ("", CALL) else "text after a tool call; write nothing after it",
        ),
    )
