"""Base of the tool formats: a call as it was written, the calls read from a text, and JSON as models write it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from turngate.types import ToolCall

MAX_CALLS = 64
"""More calls than that in one text are a flood, and none is read."""
THOUGHT = ("<think>", "</think>")
"""Around a thought; models that think have a token for each."""
UNCLOSED_THOUGHT = "no call after <think>; close it and write one tool call"

_THINK = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
_COMMA = re.compile(r",(\s*[}\]])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A call as it was written; its arguments are not checked yet."""

    name: str
    arguments: Mapping[str, object]
    untyped: bool = False
    """The values are bare text, to be read by the types of their parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The calls that were read from a text, or the problem, in words for the agent."""

    thought: str = ""
    calls: tuple[Written, ...] = ()
    problem: str = ""
    flaw: str = ""
    """How the text deviates from the tool format, although it could be read; "" = not at all."""


class Unreadable(Exception):
    """A call that cannot be read; the message is for the agent."""


class ToolFormat(ABC):
    """One way of writing calls. Instances have no state."""

    name: ClassVar[str]
    marks: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Texts by which a chat template shows that it frames calls so: all of one of these tuples."""
    control: ClassVar[tuple[str, ...]] = ()
    """Texts that are single tokens where a model writes them."""
    ends: ClassVar[tuple[str, ...]] = ()
    """Tokens with which a model may end a turn in this tool format, beside the one that its template ends it with."""
    goes_on: ClassVar[tuple[str, ...]] = ()
    """Tokens that end a message of a turn, after which the model goes on."""
    form: ClassVar[str]
    """A call in this tool format, for the prompt: NAME and ARGUMENTS stand for what differs."""

    @abstractmethod
    def begins(self, body: str) -> int:
        """Where the first call in this tool format begins in a text without its thought, even if malformed; −1 =
        none."""

    @abstractmethod
    def scan(self, body: str) -> Reading:
        """The calls of a text without its thought. Raises Unreadable."""

    @abstractmethod
    def write(self, calls: Sequence[ToolCall]) -> str:
        """These calls, as a model would write them."""

    def end(self, text: str) -> str:
        """The token that ends a turn with this text, where it is not its template's own; "" = it is."""
        return ""

    def split(self, text: str) -> tuple[str, str]:
        """Thought and body of a text. Raises Unreadable for a thought that never ends."""
        if not text.lstrip().startswith("<think>"):
            return "", text
        found = _THINK.match(text)
        if found is None:
            raise Unreadable(UNCLOSED_THOUGHT)
        return found.group(1).strip(), text[found.end() :]


def read_object(text: str, start: int) -> tuple[dict[str, object], int, str]:
    """The JSON object that begins at ``start`` (after spaces), its end, and its flaw ("" = none).

    A line break inside of a string and a comma before a closing bracket are read; two values of one key are not,
    because it is unclear which was meant. Raises Unreadable.
    """
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = _STRICT.raw_decode(text, start)
        flaw = ""
    except json.JSONDecodeError as error:
        value, end, flaw = _read_odd(text, start, error)
    except (RecursionError, ValueError) as error:  # brackets without end; a number of thousands of digits
        raise Unreadable("tool call holds what no JSON parser takes") from error
    if not isinstance(value, dict):
        raise Unreadable('tool call needs {"name": …, "arguments": {…}}')
    return value, end, flaw


def call_of(data: Mapping[str, object], key: str = "arguments") -> tuple[Written, str]:
    """The call of an object with a name and arguments, and its flaw ("" = none). Raises Unreadable."""
    name, flaw = data.get("name"), ""
    if not isinstance(name, str):
        raise Unreadable(f'tool call needs {{"name": …, "{key}": {{…}}}}')
    other = "parameters" if key == "arguments" else "arguments"
    arguments = data.get(key, data.get(other, {}))
    if key not in data and other in data:
        flaw = f'"{other}" is called "{key}" here'
    if isinstance(arguments, str):  # some servers spell the object as a text
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            raise Unreadable(f'"{key}" must be an object') from None
        flaw = f'"{key}" is the text of an object; write the object'
    if not isinstance(arguments, dict):
        raise Unreadable(f'"{key}" must be an object')
    return Written(name=name, arguments=arguments), flaw


def add(calls: list[Written], call: Written) -> None:
    """One more call. Raises Unreadable for a flood."""
    if len(calls) == MAX_CALLS:
        raise Unreadable(f"more than {MAX_CALLS} tool calls in one turn; write fewer")
    calls.append(call)


def dump(value: object) -> str:
    """JSON as models write it."""
    return json.dumps(value, ensure_ascii=False)


def flawed(*flaws: str) -> str:
    """The first flaw that is not empty."""
    return next((flaw for flaw in flaws if flaw), "")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("tool call names a key twice; write each once")
    return found


_STRICT = json.JSONDecoder(object_pairs_hook=_once)
_ODD = json.JSONDecoder(object_pairs_hook=_once, strict=False)


def _read_odd(text: str, start: int, error: json.JSONDecodeError) -> tuple[Any, int, str]:
    try:
        value, end = _ODD.raw_decode(text, start)
        return value, end, "a line break inside of a JSON string; write \\n"
    except (ValueError, RecursionError):
        pass
    try:
        tidy = _COMMA.sub(r"\1", text[start:])
        value, end = _ODD.raw_decode(tidy)
    except (ValueError, RecursionError):
        raise Unreadable(f"tool call is not JSON: {error.msg}") from None
    rest = tidy[end:]
    if not text.endswith(rest):
        raise Unreadable(f"tool call is not JSON: {error.msg}")
    return value, len(text) - len(rest), "a comma before a closing bracket"
