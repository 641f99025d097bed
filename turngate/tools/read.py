"""From what an agent wrote to the calls that it asks for.

Every tool format of ``formats`` is understood everywhere, so a person, a tiny model and a chat model can share an
environment. Where a tool format was agreed upon, because the model's chat template frames calls in it, another one is
read too, but has a flaw. Reading is lenient so that an episode goes on; rewards for form are for calls without a flaw.

Text before the call is the thought. A bad call is never an exception: ``Action.parse_error`` tells the agent what to
write instead. Only what the agent wrote is read here: a call in a tool's result, in a thought or in a string is none.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Container, Mapping, Sequence

from turngate.errors import UnknownName
from turngate.tools.arguments import BadArguments, convert_arguments, of_text, of_words
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.formats.base import Reading, ToolFormat, Unreadable, Written, flawed
from turngate.tools.formats.command_line import REST
from turngate.tools.thought_marks import CLOSE, OPEN, after_opened, parted
from turngate.tools.tool import Tool
from turngate.types import CUT_OFF, Action, ToolCall

COMMAND_LINE = TOOL_FORMATS["command_line"]
_FRAMED = tuple(one for one in TOOL_FORMATS.values() if one is not COMMAND_LINE)
_MARKED = re.compile(r"</?think>|<tool_call>|<function=|<\||<｜|\[TOOL_CALLS\]|to=functions|\A\s*\{")
"""A text without any of these can only be a command; asking each tool format takes three times as long."""
_WORD = re.compile(r"[\s\[`]*([\w.]+)\s*(\()?")


def parse(text: str, tools: Sequence[Tool], tool_format: str = "", *, cut_off: bool = False) -> Action:
    """The action that ``text`` asks for, with ``text`` unchanged; ``parse_error`` is set when no call could be read.

    ``tool_format``: the one agreed upon; "" = any. ``cut_off``: the text ends at its token limit, so what it
    would have asked for is unknown, however whole it looks: no call of it is read (see ``Action.cut_off``). Raises
    UnknownName for a tool format that does not exist.
    """
    if cut_off:
        return Action(text=text, thought=parse(text, tools, tool_format).thought, parse_error=CUT_OFF)
    agreed = tool_format_of(tool_format) if tool_format else None
    thought = ""
    try:
        used, thought, body, late = _recognised(text, agreed, tools)
        if not body.strip():
            return Action(text=text, thought=thought, parse_error=f"empty; {usages(tools)}")
        reading = used.scan(body)
        thought = thought or reading.thought
        calls, remark = _calls(reading, tools)
    except (Unreadable, BadArguments) as error:
        return Action(text=text, thought=thought or _all_thought(text), parse_error=str(error))
    other = "" if agreed in (None, used) else f"this is {used.name}; write {agreed.form}"
    return Action(text=text, thought=thought, calls=calls, flaw=flawed(other, reading.flaw, late, remark))


def speech_action(text: str, names: Container[str]) -> Action | None:
    """The action of a text without a tool call (plain speech to the user); None if the text attempts a call, even a
    malformed one.

    It attempts one if it has a mark of a tool format, begins like a function call, or begins with one of ``names``.
    """
    end = after_opened(text) or 0
    if OPEN not in text[end : (close := text.find(CLOSE, end))] and close >= 0:  # opened in the prompt
        end = close + len(CLOSE)
    thought, body = text[:end], text[end:]
    begin = _WORD.match(body)
    if _MARKED.search(body) or (begin and (begin[2] or "_" in begin[1] or begin[1] in names)):
        return None
    return Action(text=text, thought=thought.replace(OPEN, "").replace(CLOSE, "").strip())


def rewritten(text: str, tools: Sequence[Tool], tool_format: str) -> str:
    """A text that asks for calls, in another tool format, its thought before it; ``text`` itself if it asks for none.

    "" = the tool format that it has. Raises UnknownName.
    """
    action = parse(text, tools)
    if not tool_format or not action.calls:
        return text
    written = tool_format_of(tool_format).write(action.calls)
    return f"{action.thought}\n{written}" if action.thought else written


def tool_format_of(name: str) -> ToolFormat:
    """A tool format by its name. Raises UnknownName."""
    if name not in TOOL_FORMATS:
        raise UnknownName("tool format", name, TOOL_FORMATS)
    return TOOL_FORMATS[name]


def usages(tools: Sequence[Tool]) -> str:
    """All tools in the form of commands, in one line."""
    return "tools: " + " | ".join(tool.usage for tool in tools)


def _recognised(text: str, agreed: ToolFormat | None, tools: Sequence[Tool]) -> tuple[ToolFormat, str, str, str]:
    """The tool format of a text, its thought, its body and a flaw: the one agreed upon if it is there, else whichever
    begins first, so that the marks of one inside of another's strings mean nothing. Raises Unreadable."""
    if agreed in (None, COMMAND_LINE) and not _MARKED.search(text):
        return COMMAND_LINE, "", text, ""

    def first(body: str) -> tuple[int, ToolFormat | None]:
        if agreed is COMMAND_LINE:
            word = body.split(None, 1)[:1]
            if word and find(word[0], tools) is not None:
                return -1, None
        elif agreed is not None and (place := agreed.begins(body)) >= 0:
            return place, agreed
        begun = [(place, one) for one in _FRAMED if (place := one.begins(body)) >= 0]
        return min(begun, key=lambda found: found[0], default=(-1, None))

    found = parted(text, first)
    return found.tool_format or COMMAND_LINE, found.thought, found.body, found.flaw


def _calls(reading: Reading, tools: Sequence[Tool]) -> tuple[tuple[ToolCall, ...], str]:
    calls: list[ToolCall] = []
    remark = ""
    for written in reading.calls:
        tool = find(written.name, tools)
        if tool is None:
            raise Unreadable(_not_text(written.name) or unknown(written.name, tools))
        arguments = _arguments(written, tool)
        if problem := _not_text(_spelt(arguments)):
            raise Unreadable(problem)
        _, converted = convert_arguments(tool, arguments)
        remark = remark or converted
        calls.append(ToolCall(name=written.name, arguments=arguments))
    return tuple(calls), remark


def _arguments(written: Written, tool: Tool) -> dict[str, object]:
    if not written.untyped:
        return dict(written.arguments)
    if REST in written.arguments:
        return of_words(tool, str(written.arguments[REST]))
    known = tool.named
    return {
        name: of_text(known[name], str(value)) if name in known else value for name, value in written.arguments.items()
    }


def find(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool of a name."""
    for tool in tools:
        if tool.name == name:
            return tool
    return None


def unknown(name: str, tools: Sequence[Tool]) -> str:
    """The message to an agent that called a tool that does not exist."""
    close = difflib.get_close_matches(name, [tool.name for tool in tools], n=1)
    meant = next((tool.usage for tool in tools if name.startswith(f"{tool.name}(")), None)
    if meant:  # as a function is called
        return f"unknown tool '{name[:40]}'; write: {meant}"
    return f"unknown tool '{name[:40]}'; " + (f"did you mean {close[0]}?" if close else usages(tools))


def _all_thought(text: str) -> str:
    return text if text.lstrip().startswith("<think>") and "</think>" not in text else ""


def _spelt(arguments: Mapping[str, object]) -> str:
    values = arguments.values()
    if all(type(value) is str for value in values):
        return "".join(values)  # type: ignore[arg-type]  # all are text
    return json.dumps(arguments, ensure_ascii=False)


def _not_text(text: str) -> str:
    """Why ``text`` cannot be stored or passed to a program; "" = it can. JSON can spell half of a character, which none
    can take."""
    if "\0" in text or "\\u0000" in text:
        return "a NUL character cannot be passed on; leave it out"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"{text[error.start]!r} is half of a character (a lone surrogate); leave it out"
    return ""
