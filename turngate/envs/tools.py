"""Tools: their declaration, the prompt text that lists them, and the parser of what an agent writes.

Two notations are understood everywhere, so a person, a tiny model and a chat model can share an environment:

* a command line, ``run_sql SELECT 1``: the name, then the arguments. The last parameter takes the rest of the text,
  so nothing needs quoting;
* the tool call of Hermes-style chat templates, ``<tool_call>{"name": "run_sql", "arguments": {...}}</tool_call>``.

Text before the call is the thought. A bad call is never an exception: ``Action.parse_error`` tells the agent what to
write instead.
"""

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngate.types import Action, ToolCall

_THINK = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
_TOOL_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool; every argument is text."""

    name: str
    required: bool = True
    description: str = ""
    keyword_only: bool = False
    """Only in tool calls: a command line has no place for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that an environment offers."""

    name: str
    description: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def positional(self) -> tuple[Parameter, ...]:
        """Those that a command line has a place for, in its order."""
        return tuple(parameter for parameter in self.parameters if not parameter.keyword_only)

    @property
    def usage(self) -> str:
        """The command form, for instance ``describe TABLE``; optional arguments in brackets."""
        words = [p.name.upper() if p.required else f"[{p.name.upper()}]" for p in self.positional]
        return " ".join([self.name, *words])


def parse(text: str, tools: Sequence[Tool]) -> Action:
    """What ``text`` asks for. The result keeps ``text`` unchanged; ``parse_error`` is set when no call was found."""
    thought, body = "", text
    if text.lstrip().startswith("<think>"):
        match = _THINK.match(text)
        if match is None:
            return Action(
                text=text, thought=text, parse_error="no call after <think>; close it and write one tool call"
            )
        thought, body = match.group(1).strip(), text[match.end() :]
    if "<tool_call>" in body:
        return _parse_json_calls(text, thought, body, tools)
    return _parse_command(text, thought, body.strip(), tools)


def _parse_json_calls(text: str, thought: str, body: str, tools: Sequence[Tool]) -> Action:
    blocks = list(_TOOL_CALL.finditer(body))
    if not blocks:
        return Action(text=text, thought=thought, parse_error="<tool_call> is not closed by </tool_call>")
    thought = thought or body[: blocks[0].start()].strip()
    calls: list[ToolCall] = []
    for block in blocks:
        try:
            data = json.loads(block.group(1))
        except json.JSONDecodeError as error:
            return Action(text=text, thought=thought, parse_error=f"tool call is not JSON: {error.msg}")
        except (RecursionError, ValueError):  # brackets without end; a number of thousands of digits
            return Action(text=text, thought=thought, parse_error="tool call holds what no JSON parser takes")
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return Action(text=text, thought=thought, parse_error='tool call needs {"name": …, "arguments": {…}}')
        arguments = data.get("arguments", {})
        if not isinstance(arguments, dict):
            return Action(text=text, thought=thought, parse_error='"arguments" must be an object')
        if problem := _not_text(json.dumps(data, ensure_ascii=False)) or _check(data["name"], arguments, tools):
            return Action(text=text, thought=thought, parse_error=problem)
        calls.append(ToolCall(name=data["name"], arguments=arguments))
    return Action(text=text, thought=thought, calls=tuple(calls))


def _parse_command(text: str, thought: str, body: str, tools: Sequence[Tool]) -> Action:
    if not body:
        return Action(text=text, thought=thought, parse_error=f"empty; {_usage(tools)}")
    name, *rest = body.split(None, 1)
    tool = _find(name, tools)
    if tool is None:
        return Action(text=text, thought=thought, parse_error=_unknown(name, tools))
    places = tool.positional
    words = rest[0].split(None, len(places) - 1) if rest and places else rest
    if len(words) > len(places):
        return Action(text=text, thought=thought, parse_error=f"{name} takes no arguments; write: {tool.usage}")
    arguments = {parameter.name: word for parameter, word in zip(places, words, strict=False)}
    if problem := _missing(tool, arguments) or _not_text(body):
        return Action(text=text, thought=thought, parse_error=problem)
    return Action(text=text, thought=thought, calls=(ToolCall(name=name, arguments=arguments),))


def one_call(action: Action, tools: Sequence[Tool]) -> ToolCall | str:
    """The only call of an action; or, for an environment that takes one a turn, what to tell the agent instead."""
    if action.parse_error is not None:
        return action.parse_error
    if len(action.calls) != 1:
        return f"{len(action.calls)} tool calls in one turn, none was carried out; write exactly one"
    call = action.calls[0]
    return call if _find(call.name, tools) else _unknown(call.name, tools)


def _check(name: str, arguments: dict[str, Any], tools: Sequence[Tool]) -> str | None:
    tool = _find(name, tools)
    if tool is None:
        return _unknown(name, tools)
    known = [parameter.name for parameter in tool.parameters]
    for argument, value in arguments.items():
        if argument not in known:
            return f"{name} has no argument '{argument}'; write: {tool.usage}"
        if not isinstance(value, str):
            return f"argument '{argument}' of {name} must be a string; write: {tool.usage}"
    return _missing(tool, arguments) or _not_text("".join(arguments.values()))


def _missing(tool: Tool, arguments: dict[str, Any]) -> str | None:
    for parameter in tool.parameters:
        if parameter.required and not arguments.get(parameter.name, "").strip():
            return f"{tool.name} needs {parameter.name.upper()}; write: {tool.usage}"
    return None


def _not_text(text: str) -> str | None:
    """What no program, file or database takes. JSON can spell half of a character, which nothing can store."""
    if "\0" in text:
        return "a NUL character cannot be passed on; leave it out"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"{text[error.start]!r} is half of a character (a lone surrogate); leave it out"
    return None


def _find(name: str, tools: Sequence[Tool]) -> Tool | None:
    for tool in tools:
        if tool.name == name:
            return tool
    return None


def _unknown(name: str, tools: Sequence[Tool]) -> str:
    close = difflib.get_close_matches(name, [tool.name for tool in tools], n=1)
    return f"unknown tool '{name[:40]}'; " + (f"did you mean {close[0]}?" if close else _usage(tools))


def _usage(tools: Sequence[Tool]) -> str:
    return "tools: " + " | ".join(tool.usage for tool in tools)
