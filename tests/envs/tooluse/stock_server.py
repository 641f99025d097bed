"""A real MCP server with a stock of goods, over standard input and output, or over HTTP if a port is given."""

import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("stock")
STOCK = {"apples": 3, "pears": 0}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count(goods: str) -> str:
    """How many there are of some goods."""
    if goods not in STOCK:
        raise ValueError(f"no goods '{goods}'")
    return str(STOCK[goods])


@server.tool()
def add(goods: str, number: int = 1) -> str:
    """Put goods into the stock."""
    STOCK[goods] = STOCK.get(goods, 0) + number
    return f"{STOCK[goods]} {goods}"


@server.tool()
def nap(seconds: float) -> str:
    """Do nothing for a while."""
    time.sleep(seconds)
    return "awake"


@server.tool()
def flood(characters: int) -> str:
    """A long text."""
    return "x" * characters


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
