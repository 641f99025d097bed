"""Tools as users write them: they take what they are given, and their policy and check look at what they find."""

from typing import Any

from turngate import ToolCall, tool
from turngate.envs.tooluse import State, policy

STATE: dict[str, Any] = {"n": 3, "share": 0.5, "orders": {"A1": {"status": "open"}}, "log": []}


@tool
def multiply(times: int, state: State) -> str:
    """Multiply the number."""
    state["n"] *= times
    return f"{state['n']}"


@tool
def scale(by: float, state: State) -> str:
    """Scale the share."""
    state["share"] = state["share"] * by - state["share"]
    return f"{state['share']:.2f}"


@tool
def cancel(order: str, state: State) -> str:
    """Cancel an order, or make one that is cancelled."""
    state["orders"].setdefault(order, {})["status"] = "cancelled"
    return "ok"


@tool
def remove(order: str, state: State) -> str:
    """Remove an order."""
    del state["orders"][order]
    return "ok"


@tool
def note(what: list[Any] | dict[str, Any] | str | float | None, state: State) -> str:
    """Write something down, inside of what was written before."""
    state["log"] = [state["log"], what]
    return "noted"


@policy
def nothing_that_was_sent(call: ToolCall, state: State) -> bool:
    """Leave alone what was sent."""
    return call.name == "cancel" and state["orders"][call.arguments["order"]]["status"] == "sent"


def is_cancelled(state: dict[str, Any]) -> bool:
    """The goal's check."""
    return state["orders"]["A1"]["status"] == "cancelled" and state["n"] < 10 and state["share"] < 1
