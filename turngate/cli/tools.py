"""``turngate tools``: a module of tools or an MCP server as an agent would see it."""

from __future__ import annotations

import contextlib
import json

from rich.console import Console

from turngate.envs.tooluse.sources import named_world
from turngate.report.episode_words import literal


def list_tools(console: Console, name: str) -> None:
    """Print the tools of the world ``name``: their marks, usage, description and schema.

    Raises UserError for a name that is neither a module of tools nor an MCP server.
    """
    with contextlib.closing(named_world(name).open()) as world:
        for tool in world.tools:
            mark = "READ " if tool.read_only else "WRITE"
            print_line(console, f"{mark} {tool.usage}")
            if tool.description:
                print_line(console, f"      {tool.description}")
            print_line(console, f"      {json.dumps(tool.schema, ensure_ascii=False)}")


def print_line(console: Console, text: str) -> None:
    """Print what a server may have written: nothing in it steers the terminal."""
    console.print(literal(text), markup=False, highlight=False)
