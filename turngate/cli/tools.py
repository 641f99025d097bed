"""``turngate tools``: a module of tools or an MCP server as an agent would see it."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

import typer
from rich.console import Console

from turngate.cli import consoles

app = typer.Typer(rich_markup_mode=None)


@app.command()
def tools(
    world: Annotated[
        str,
        typer.Argument(
            metavar="MODULE|SERVER",
            help="A Python module or file, the command of an MCP server in quotes, or the address of one.",
        ),
    ],
) -> None:
    """List the tools of a module or an MCP server as an agent sees them: READ or WRITE, usage, description, schema."""
    from turngate.envs.tooluse.sources import named_world

    console = consoles.output()
    with contextlib.closing(named_world(world).open()) as opened:
        for tool in opened.tools:
            mark = "READ " if tool.read_only else "WRITE"
            print_line(console, f"{mark} {tool.usage}")
            if tool.description:
                print_line(console, f"      {tool.description}")
            print_line(console, f"      {json.dumps(tool.schema, ensure_ascii=False)}")


def print_line(console: Console, text: str) -> None:
    """Print what a server may have written: nothing in it steers the terminal."""
    from turngate.report.episode_words import literal

    console.print(literal(text), markup=False, highlight=False)
