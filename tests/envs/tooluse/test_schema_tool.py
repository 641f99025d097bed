"""Tools that come with a JSON schema: every valid one can be listed, shown and called."""

from typing import Any

import pytest

from turngate.envs.tooluse.engine.schema_tool import schema_tool
from turngate.tools.read import parse


@pytest.mark.parametrize(
    ("schema", "written", "expected"),
    [
        ({"type": ["string", "null"]}, "12", "12"),
        ({"type": ["integer", "string"]}, "12", 12),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]}, "[1]", [1]),
        ({"oneOf": [{"type": "number"}, {"$ref": "#/$defs/other"}]}, "12", 12),
        ({"$ref": "#/$defs/other"}, "true", True),
        ({"enum": ["a", 1]}, "a", "a"),
        ({"type": []}, "a", "a"),
        ({}, "1", 1),
        (True, "x y", "x y"),
    ],
)
def test_every_valid_schema_of_an_argument_is_shown_as_it_is_and_can_be_called(schema, written, expected):
    whole: dict[str, Any] = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    tool = schema_tool("find", "Find.", whole, read_only=True)
    assert tool.schema["function"]["parameters"] == whole
    action = parse(f"find {written}", (tool,))
    assert action.parse_error is None
    assert action.calls[0].arguments == {"x": expected}
