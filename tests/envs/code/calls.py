"""What an agent writes to call a tool of the environment."""

import json
from typing import Any


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
