"""``turngate tools``: what an agent would see of a module of tools or an MCP server."""

from __future__ import annotations

import contextlib
import json

from rich.console import Console

from turngate.envs.tooluse.sources import named_world


def list_tools(console: Console, name: str) -> None:
    """Print the tools of the world ``name``: what they are marked as, their usage, description and schema.

    Raises UserError for what is no module of tools and no MCP server.
    """
    with contextlib.closing(named_world(name).open()) as world:
        for tool in world.tools:
            mark = "READ " if tool.read_only else "WRITE"
            console.print(f"{mark} {tool.usage}", markup=False, highlight=False)
            if tool.description:
                console.print(f"      {tool.description}", markup=False, highlight=False)
            console.print(f"      {json.dumps(tool.schema, ensure_ascii=False)}", markup=False, highlight=False)
