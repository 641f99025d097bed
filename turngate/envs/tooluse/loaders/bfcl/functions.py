"""The functions of BFCL's services: as tools, from their docs, and as gold calls, from the text of its answers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from turngate.errors import TaskRefused
from turngate.tools.tool import Parameter, Tool
from turngate.types import ToolCall

_TYPES: dict[object, type] = {"string": str, "integer": int, "float": float, "number": float, "boolean": bool}

_LISTS: dict[object, object] = {"string": list[str], "integer": list[int], "float": list[float]}
_WIDER: dict[tuple[str, str], object] = {("close_ticket", "ticket_id"): str | int}
"""Arguments that gold calls give in another type than the docs say: those of the tasks 173."""


def tool_of_doc(doc: Mapping[str, object]) -> Tool:
    """The tool that a row of docs describes. Raises TaskRefused for a type that none of BFCL's functions has."""
    parameters = doc["parameters"]
    assert isinstance(parameters, Mapping)
    required = parameters.get("required", ())
    return Tool(
        name=str(doc["name"]),
        description=" ".join(str(doc["description"]).split()),
        parameters=tuple(
            Parameter(
                name=name,
                required=name in required,
                description=" ".join(str(about.get("description", "")).split()),
                annotation=_WIDER.get((str(doc["name"]), name)) or _annotation(name, about),
                may_be_blank=True,
            )
            for name, about in parameters["properties"].items()
        ),
    )


def _annotation(name: str, about: Mapping[str, object]) -> object:
    kind = about.get("type")
    if kind in _TYPES:
        return _TYPES[kind]
    items, fields = about.get("items"), about.get("properties")
    if kind == "array" and isinstance(items, Mapping) and items.get("type") in _LISTS:
        return _LISTS[items["type"]]
    if kind == "dict" and isinstance(fields, Mapping):
        known: dict[str, Any] = {field: _annotation(field, one) for field, one in fields.items()}
        make: Any = TypedDict  # its fields are only known now
        table = make(name, known, total=False)
        table.__pydantic_config__ = ConfigDict(extra="forbid")
        return table
    raise TaskRefused(f"the argument '{name}' has the type {kind!r}, which no tool has")


def gold_call(text: str, functions: Mapping[str, Sequence[str]]) -> ToolCall:
    """The call that a text such as ``cd(folder='a')`` spells. It is read, not evaluated.

    ``functions``: name → its arguments in order. Raises TaskRefused for anything but a call of one of them with plain
    values.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError("it is no call of a function")
        if call.func.id not in functions:
            raise ValueError(f"there is no function '{call.func.id}'")
        values = dict(zip(functions[call.func.id], map(ast.literal_eval, call.args), strict=False))
        values |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (SyntaxError, ValueError) as error:
        raise TaskRefused(f"the gold call {text!r:.80} cannot be read: {error}") from None
    return ToolCall(name=call.func.id, arguments=values)
