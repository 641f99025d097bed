"""Tools in words, for a model whose chat template has no place for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from turngate.types import JSON

_HEAD = (
    "You work with tools. Each of your answers is one call and nothing else, in one line: the name of the tool, then "
    "its arguments in this order, without quotes. Arguments in [brackets] may be left out. Your tools:"
)
_KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "JSON list",
    "object": "JSON object",
    "null": "null",
}


def tool_text(tools: Sequence[Mapping[str, JSON]]) -> str:
    """How a call is written, and each tool with its description and its arguments; "" without tools.

    ``tools``: as ``Tool.schema``.
    """
    if not tools:
        return ""
    return "\n".join([_HEAD, *(line for tool in tools for line in _lines(tool["function"]))])


def _lines(function: JSON) -> Iterator[str]:
    assert isinstance(function, dict)
    schema = function["parameters"]
    assert isinstance(schema, dict)
    needed, arguments = schema.get("required", []), schema.get("properties", {})
    assert isinstance(needed, list)
    assert isinstance(arguments, dict)
    names = [name.upper() if name in needed else f"[{name.upper()}]" for name in arguments]
    about = f": {function['description']}" if function["description"] else ""
    yield f"{' '.join([str(function['name']), *names])}{about}"
    for name, one in arguments.items():
        assert isinstance(one, dict)
        told = f", {one['description']}" if one.get("description") else ""
        yield f"  {name.upper()}: {_kind(one)}{told}"


def _kind(schema: Mapping[str, JSON]) -> str:
    """The type of an argument, in a word or two."""
    if isinstance(choices := schema.get("enum"), list):
        return " or ".join(str(one) for one in choices)
    if isinstance(several := schema.get("anyOf"), list):
        kinds = [_kind(one) for one in several if isinstance(one, dict) and one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds)) or "null"
    if "const" in schema:
        return str(schema["const"])
    return _KINDS.get(str(schema.get("type", "")), "any value")
