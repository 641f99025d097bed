"""Arguments of a call: from words or JSON values to the arguments of the tool's function.

The agent is told of a value that does not fit, with the name of the field and the usage. A value that fits only after a
conversion that JSON does not need, such as "3" where a number belongs, is read, with a remark (see ``Action.flaw``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from turngate.tools.tool import Parameter, Tool

LONGEST_NUMBER = 10**100
"""Whole numbers from here on are refused: products of several soon become too long to write down."""
MOST_DEEP = 32
"""Most levels of lists and tables in an argument; values that nest several soon become too deep to write down."""
_OF_THE_VALUE = re.compile(", (?:unable to parse|got) ")


class BadArguments(Exception):
    """Arguments that do not fit the tool; the message is for the agent."""


def convert_arguments(tool: Tool, arguments: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """The arguments as the function takes them, and a remark ("" = they were as they ought to be).

    Raises BadArguments.
    """
    known = tool.named
    found: dict[str, object] = {}
    remark = ""
    for name, value in arguments.items():
        parameter = known.get(name)
        if parameter is None:
            raise BadArguments(f"{tool.name} has no argument '{name}'; write: {tool.usage}")
        if value is None and not parameter.required:
            continue  # models write null for an argument that they leave out
        if type(value) is not str and (odd := next(_unwieldy(value), "")):
            raise BadArguments(f"argument '{name}' of {tool.name} holds {odd}; write: {tool.usage}")
        found[name], converted = _value(tool, parameter, value)
        if type(found[name]) is not str and (odd := next(_unwieldy(found[name]), "")):  # such as "NaN", a text
            raise BadArguments(f"argument '{name}' of {tool.name} holds {odd}; write: {tool.usage}")
        remark = remark or converted
    for parameter in tool.parameters:
        blank = _blank(found.get(parameter.name)) and not parameter.may_be_blank
        if parameter.required and (parameter.name not in found or blank):
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
    """A value that was written without quotes: as it stands for text, else as JSON where it is that.

    Where the type allows text beside other kinds (``str | None``), a value of none of those is text: 12345, "true".
    """
    if parameter.annotation is str:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    if isinstance(value, str) or _fits(parameter, value) or not _fits(parameter, text):
        return value
    return text


def _fits(parameter: Parameter, value: object) -> bool:
    try:
        _adapter(parameter.annotation).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return False
    return True


def _unwieldy(value: object, depth: int = 0) -> Iterator[str]:
    """Parts of ``value`` that can be neither computed with nor stored, in words: no number, too long, too deep."""
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        yield f"{value}, which is no number"
    elif isinstance(value, int) and abs(value) >= LONGEST_NUMBER:
        yield "a whole number of more than 100 digits"
    elif isinstance(value, BaseModel):
        yield from _unwieldy(dict(value), depth)
    elif isinstance(value, Mapping | list | tuple | set | frozenset):
        if depth == MOST_DEEP:
            yield f"lists and tables nested more than {MOST_DEEP} deep"
            return
        for inside in (*value, *value.values()) if isinstance(value, Mapping) else value:
            yield from _unwieldy(inside, depth + 1)


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
        raise BadArguments(_problem_text(tool, parameter, value, error)) from None
    return found, f"argument '{parameter.name}' of {tool.name} is {json.dumps(value)[:40]}, which is of another type"


@lru_cache(maxsize=4096)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)


def _problem_text(tool: Tool, parameter: Parameter, whole: object, error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_context=False)
    first, value = problems[0], problems[0]["input"]
    field = _field(parameter, first, whole)
    wanted = dict.fromkeys(
        _wanted(problem["msg"]) for problem in problems if _field(parameter, problem, whole) == field
    )
    given = repr(value)
    given = given if len(given) <= 40 else f"{given[:40]}…"
    either = " or ".join(wanted).replace(" or should be ", " or ")
    named = isinstance(value, str) and value.startswith(tuple(f"{one.name}=" for one in tool.parameters))
    hint = " (values without names, null for what is left out)" if named else ""
    return f"argument '{field}' of {tool.name} {either}, not {given}; write: {tool.usage}{hint}"


def _wanted(message: str) -> str:
    """The requirement in pydantic's message, without its words about the value, which is shown apart."""
    for said in ("Value error, ", "Assertion failed, ", "Input "):
        message = message.removeprefix(said)
    return _OF_THE_VALUE.split(message[:1].lower() + message[1:])[0]


def _field(parameter: Parameter, problem: ErrorDetails, whole: object) -> str:
    """Where in the argument: pydantic's path less what names the branch of a union, which the agent did not write."""
    names, at = [parameter.name], whole
    for number, part in enumerate(problem["loc"], 1):
        inside = dict(enumerate(at)) if isinstance(at, list) else at if isinstance(at, Mapping) else {}
        missing = problem["type"] == "missing" and number == len(problem["loc"])
        if part in inside or missing:
            names.append(str(part))
            at = inside.get(part)
    return ".".join(names)


def _blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
