"""Tools that come with a JSON schema of their arguments, as servers and other people's task sets write them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turngate.tools.tool import Parameter, Tool
from turngate.types import JSON

_TYPES: dict[object, object] = {"string": str, "integer": int, "number": float, "boolean": bool}


@dataclass(frozen=True, kw_only=True)
class SchemaTool(Tool):
    """A tool with the schema that its owner gives it."""

    input_schema: Mapping[str, JSON] = field(default_factory=dict)

    @functools.cached_property
    def schema(self) -> Mapping[str, JSON]:
        """See ``Tool.schema``."""
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
            annotation=_TYPES.get(about.get("type") if isinstance(about, dict) else None, Any),
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
