"""Lamps of a house: a small world of tools, and tasks in it."""

import json
from pathlib import Path

LAMPS = '''
from turngate import ToolCall, ToolError, tool
from turngate.envs.tooluse import State, policy

STATE = {"lamps": {"hall": False, "cellar": True}, "switched": 0}


@tool(read_only=True)
def look(lamp: str, state: State) -> str:
    """Whether a lamp is on."""
    return "on" if _lamp(lamp, state) else "off"


@tool
def switch(lamp: str, on: bool, state: State) -> str:
    """Switch a lamp.

    Args:
        lamp: its name
        on: on or off
    """
    _lamp(lamp, state)
    state["lamps"][lamp] = on
    return "done"


@tool
def buy(lamp: str, state: State) -> str:
    """Buy a lamp, which is off."""
    if lamp in state["lamps"]:
        raise ToolError(f"there is a lamp '{lamp}'")
    state["lamps"][lamp] = False
    return "bought"


@tool
def throw_away(lamp: str, state: State) -> str:
    """Throw a lamp away."""
    _lamp(lamp, state)
    del state["lamps"][lamp]
    return "gone"


@policy
def the_cellar_stays_lit(call: ToolCall, state: State) -> bool:
    return call.name == "switch" and call.arguments == {"lamp": "cellar", "on": False}


def _lamp(lamp, state):
    if lamp not in state["lamps"]:
        raise ToolError(f"no lamp '{lamp}'")
    return state["lamps"][lamp]
'''
SWITCH = {"name": "switch", "arguments": {"lamp": "hall", "on": True}}
LIT = {"id": "lit", "prompt": "Light the hall.", "gold": [SWITCH], "goal": {"type": "state"}}
ASKED = {
    "id": "asked",
    "prompt": "Is the cellar lit? Answer on or off.",
    "gold": [{"name": "look", "arguments": {"lamp": "cellar"}}],
    "goal": {"type": "answer", "answer": "on"},
}


def write(*rows: object, name: str = "tasks.jsonl") -> None:
    """A file of tasks in the current folder."""
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
