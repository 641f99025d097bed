"""Arguments of a call: from words or JSON values to what the function of the tool takes.

What does not fit is told to the agent with the name of the field and the usage. What fits only after a conversion that
JSON has no need of, such as "3" where a number belongs, is read, with a remark (see ``Action.flaw``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turngate.tools.tool import Parameter, Tool


class BadArguments(Exception):
    """Arguments that do not fit the tool; the message is for the agent."""


def typed(tool: Tool, arguments: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """The arguments as the function takes them, and a remark ("" = they were as they ought to be).

    Raises BadArguments.
    """
    known = {parameter.name: parameter for parameter in tool.parameters}
    found: dict[str, object] = {}
    remark = ""
    for name, value in arguments.items():
        parameter = known.get(name)
        if parameter is None:
            raise BadArguments(f"{tool.name} has no argument '{name}'; write: {tool.usage}")
        if value is None and not parameter.required:
            continue  # models write null for what they leave out
        found[name], converted = _value(tool, parameter, value)
        remark = remark or converted
    for parameter in tool.parameters:
        if parameter.required and (parameter.name not in found or _blank(found[parameter.name])):
            raise BadArguments(f"{tool.name} needs {parameter.name.upper()}; write: {tool.usage}")
    return found, remark


def of_words(tool: Tool, rest: str) -> dict[str, object]:
    """The arguments of a command line: one word each, the last one all the rest. Raises BadArguments."""
    places = tool.positional
    words = rest.split(None, len(places) - 1) if rest and places else [rest] if rest else []
    if len(words) > len(places):
        raise BadArguments(f"{tool.name} takes no arguments; write: {tool.usage}")
    return {parameter.name: of_text(parameter, word) for parameter, word in zip(places, words, strict=False)}


def of_text(parameter: Parameter, text: str) -> object:
    """A value that was written without quotes: as it stands for text, else as JSON where it is that."""
    if parameter.annotation is str:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()


def _value(tool: Tool, parameter: Parameter, value: object) -> tuple[object, str]:
    if parameter.annotation is str:
        if not isinstance(value, str):
            raise BadArguments(f"argument '{parameter.name}' of {tool.name} must be a string; write: {tool.usage}")
        return value, ""
    try:
        return _adapter(parameter.annotation).validate_json(json.dumps(value), strict=True), ""
    except ValidationError:
        pass
    try:
        found = _adapter(parameter.annotation).validate_python(value)
    except ValidationError as error:
        raise BadArguments(_told(tool, parameter, error)) from None
    return found, f"argument '{parameter.name}' of {tool.name} is {json.dumps(value)[:40]}, which is of another type"


@lru_cache(maxsize=4096)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _told(tool: Tool, parameter: Parameter, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    inner = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function-"))
    field = f"{parameter.name}.{inner}" if inner else parameter.name
    message = first["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    given = repr(first["input"])
    given = given if len(given) <= 40 else f"{given[:40]}…"
    return f"argument '{field}' of {tool.name} {message[:1].lower() + message[1:]}, not {given}; write: {tool.usage}"


def _blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
