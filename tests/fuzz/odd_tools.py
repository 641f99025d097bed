"""A tool that does what a test says: it returns, raises or keeps anything."""

from typing import Any

from turngate import tool
from turngate.envs.tooluse import State

STATE: dict[str, Any] = {"kept": 1}
DEEDS: list[tuple[str, Any]] = [("keep", 2), ("return", "done")]
"""What each number does; the first is for the gold call."""


@tool
def do(what: int, state: State) -> str:
    """Do something."""
    kind, value = DEEDS[what]
    if kind == "raise":
        raise value
    if kind in ("keep", "record"):
        state["kept"] = value
        return "kept"
    return value
