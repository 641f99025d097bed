"""A conversation as servers of OpenAI's chat completions take it: messages, tools and what was called, images.

What a server calls arrives apart from what it says. An action is text, so a call is written down in one tool format,
Hermes, behind the words before it (``as_text``), and spelt out again when the conversation goes on (``spelt``).

    reply                  {"content": "I look.", "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}
    action                 I look.\\n<tool_call>\\n{"name": "look", "arguments": {}}\\n</tool_call>
    in the next request    the same as the reply, with an id that follows from its place; then {"role": "tool", …}
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from turngate.errors import ConfigError
from turngate.images import image_format
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.formats.base import Unreadable, dump
from turngate.tools.formats.hermes import BEGIN, END
from turngate.types import JSON, Message, ToolCall, storable

TOOL_FORMAT = "hermes"
"""In which the calls of a server are kept."""
IMAGE_BYTES = 20 * 2**20
"""Largest image that is sent."""
_ELSEWHERE = "see the answer to the last call of this turn"

Row: TypeAlias = dict[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """One call of a reply. ``arguments``: JSON as the model wrote it, which may be none."""

    name: str
    arguments: str


def as_text(content: str, calls: Sequence[ServerCall], *, cut_off: bool = False) -> str:
    """A reply as the text of an action: what it says, then its calls.

    ``cut_off``: it ran out of tokens, so how its last call would have ended is unknown; the block of that call has no
    end either, and nothing of it can be carried out, now or where the episode is played again.
    """
    blocks = [f'{BEGIN}\n{{"name": {dump(call.name)}, "arguments": {call.arguments}}}\n{END}' for call in calls]
    if cut_off and blocks:
        blocks[-1] = blocks[-1].removesuffix(f"}}\n{END}")
    return "\n".join([content, *blocks] if content else blocks)


def spelt(messages: Sequence[Message], *, tools: bool) -> list[Row]:
    """The ``messages`` of a request. ``tools``: the server is given tools, so calls and their answers stand apart.

    An answer to several calls of one turn is one text: the last call has it, and the others refer to it. Images are
    parts of a user's message; beside the answer to a call, which takes text alone, they follow in one of their own.
    Raises ConfigError for an image of an unknown type and for one above ``IMAGE_BYTES``.
    """
    rows: list[Row] = []
    unanswered: list[str] = []
    for place, message in enumerate(messages):
        images = [_image(image) for image in message.images]
        said = _before_calls(message) if tools and message.calls else None
        if said is not None:
            asked = _asked(message.calls, place)
            unanswered = [str(call["id"]) for call in asked]
            rows.append({"role": "assistant", "content": said or None, "tool_calls": asked})
        elif message.role == "tool" and unanswered:
            texts = [*[_ELSEWHERE] * (len(unanswered) - 1), storable(message.content)]
            answers = zip(unanswered, texts, strict=True)
            rows += [{"role": "tool", "tool_call_id": call, "content": text} for call, text in answers]
            rows += [{"role": "user", "content": images}] if images else []
            unanswered = []
        else:
            role = "user" if message.role == "tool" else message.role
            rows.append({"role": role, "content": _content(message.content, images)})
    return rows


def listing(messages: Sequence[Message], tools: Sequence[Mapping[str, JSON]]) -> tuple[Message, ...]:
    """The same conversation with the tools in its first user message, for a server that takes none."""
    schemas = "\n".join(dump(tool["function"]) for tool in tools)
    told = f"You have these tools:\n{schemas}\nCall one by writing:\n{TOOL_FORMATS[TOOL_FORMAT].form}"
    first = next(place for place, message in enumerate(messages) if message.role == "user")
    named = replace(messages[first], content=f"{told}\n\n{messages[first].content}")
    return *messages[:first], named, *messages[first + 1 :]


def _before_calls(message: Message) -> str | None:
    """What an assistant said before its calls; None if they are in another tool format than a server's are kept in."""
    tool_format = TOOL_FORMATS[TOOL_FORMAT]
    try:
        _, body = tool_format.split(message.content)
    except Unreadable:
        return None
    first = tool_format.begins(body)
    if first < 0:
        return None
    return storable(message.content[: len(message.content) - len(body) + first].removesuffix("\n"))


def _asked(calls: Sequence[ToolCall], place: int) -> list[Row]:
    """The calls of a turn, each with an id of nine letters and digits, which Mistral's servers insist on."""
    return [
        {
            "id": f"call{place:03d}{number:02d}",
            "type": "function",
            "function": {"name": call.name, "arguments": dump(dict(call.arguments))},
        }
        for number, call in enumerate(calls)
    ]


def _content(text: str, images: Sequence[Row]) -> JSON:
    return [{"type": "text", "text": storable(text)}, *images] if images else storable(text)


def _image(image: bytes) -> Row:
    media = image_format(image)
    if not media:
        raise ConfigError(
            f"an observation shows an image that begins with {image[:8]!r}; servers take PNG, JPEG, GIF and WebP"
        )
    if len(image) > IMAGE_BYTES:
        raise ConfigError(
            f"an observation shows an image of {len(image):,} bytes; at most {IMAGE_BYTES:,} are sent: make it smaller"
        )
    return {"type": "image_url", "image_url": {"url": f"data:image/{media};base64,{base64.b64encode(image).decode()}"}}
