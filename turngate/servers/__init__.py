"""Servers that are asked: judges, users, policies, retrieval servers, MCP servers, and which errors mean that one is
down.

``http_client`` the one HTTP client · ``loop_thread`` an event loop for callers that cannot await

A server that answers badly is treated as one that does not answer: it is asked again and counted, and then the caller's
rule for a missing answer applies. It is never the fault of the environment that asked.
"""

from __future__ import annotations

VIEW_PORT = 8765
"""Port of this machine at which ``turngate view`` shows runs, unless it is told another one."""
MOST_BYTES = 16_000_000
"""Largest answer of a server that is read."""

_CLIENTS = frozenset(("http", "httpx2", "httpcore2", "h11", "mcp", "anyio", "pydantic_core"))
"""Packages whose errors are about a server: those that speak HTTP, and those that read its answers."""
_MEANT = (OSError, EOFError, ValueError, RecursionError, OverflowError)
"""No connection, none in time, or one that ended (OSError, EOFError); no HTTP, JSON or UTF-8, numbers without end."""


class ServerDown(ConnectionError):
    """A server gave no answer that can be read. ``reached``: whether there is a server at the address."""

    def __init__(self, reason: str, *, reached: bool = True) -> None:
        super().__init__(reason)
        self.reached = reached


def is_down(error: BaseException) -> bool:
    """Whether an error that was raised while a server was asked, or its answer read, says that it is down."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_down(one) for one in error.exceptions)
    return isinstance(error, _MEANT) or any(
        kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__
    )
