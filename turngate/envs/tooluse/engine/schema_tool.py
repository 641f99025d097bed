"""Tools that come with a JSON schema of their arguments, as servers and published task sets write them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turngate.tools.tool import Parameter, Tool
from turngate.types import JSON

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "object": dict[str, Any],
    "array": list[Any],
}


@dataclass(frozen=True, kw_only=True)
class SchemaTool(Tool):
    """A tool with the schema that its owner gives it."""

    input_schema: Mapping[str, JSON] = field(default_factory=dict)

    @functools.cached_property
    def schema(self) -> Mapping[str, JSON]:
        function: dict[str, JSON] = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.input_schema),
        }
        return {"type": "function", "function": function}


def schema_tool(name: str, description: str, schema: Mapping[str, JSON], *, read_only: bool) -> SchemaTool:
    """The tool of a name, a description and the schema of an object that holds its arguments."""
    listed, known = schema.get("required"), schema.get("properties")
    required = listed if isinstance(listed, list | tuple) else ()
    properties = known if isinstance(known, Mapping) else {}
    parameters = tuple(
        Parameter(
            name=argument,
            required=argument in required,
            description=" ".join(str(about.get("description", "")).split()) if isinstance(about, dict) else "",
            annotation=_annotation(about),
            may_be_blank=True,
        )
        for argument, about in properties.items()
    )
    return SchemaTool(
        name=name,
        description=" ".join(description.split()),
        parameters=parameters,
        read_only=read_only,
        input_schema=schema,
    )


def _annotation(schema: object) -> Any:
    """The Python type of the values that ``schema`` allows; Any for keywords that are not read here, so that the owner
    of the tool gets the agent's own value."""
    if not isinstance(schema, Mapping):
        return Any
    kinds = schema.get("type", schema.get("anyOf", schema.get("oneOf")))
    if isinstance(kinds, list | tuple) and kinds:
        parts = [_annotation({"type": kind} if isinstance(kind, str) else kind) for kind in kinds]
        return Any if Any in parts else functools.reduce(operator.or_, parts)
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any
