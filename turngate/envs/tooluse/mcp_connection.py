"""A connection to an MCP server, by the ``mcp`` package, for callers that are no coroutines.

The client lives in a loop in a thread of its own. Every wait has a deadline. Closing it ends the server that it started
and all processes that this one started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING, Any, TypeVar

from turngate.parts import when_used

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

mcp = when_used("mcp", "mcp")

T = TypeVar("T")

CLOSE_S = 10.0
"""Longest time that a server is given to end, and to be killed."""
MOST_PAGES = 20
"""Most pages of a list of tools that are read."""


class ServerLost(Exception):
    """The server does not answer, or not as an MCP server would; the message says what happened."""


class CallRefused(Exception):
    """The server answers a call with an error of the protocol, and goes on; the message is the server's."""


class McpConnection:
    """An open connection. ``server``: the command and its arguments, or the address of a server that runs.

    ``start_s`` bounds the start and the list of tools, ``deadline_s`` each call, in seconds. Raises ServerLost where no
    MCP server answers.
    """

    def __init__(
        self, server: tuple[str, ...] | str, *, env: Mapping[str, str], deadline_s: float, start_s: float
    ) -> None:
        self._server, self._env = server, dict(env)
        self._deadline_s, self._start_s = deadline_s, start_s
        self._loop = asyncio.new_event_loop()
        self._ready: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, name="turngate mcp", daemon=True)
        self._thread.start()
        try:
            self._client = self._ready.result(start_s)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise ServerLost(_told(error, start_s)) from error
            raise

    def tools(self) -> list[ServerTool]:
        """What the server offers, as ``mcp.Tool``. Raises ServerLost."""
        found: list[ServerTool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = self._asked(self._client.list_tools(cursor=cursor), self._start_s)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise ServerLost(f"its list of tools has more than {MOST_PAGES} pages")

    def call(self, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        """The ``mcp`` result of a call. Raises ServerLost, CallRefused, and RuntimeError or ValueError for a result of
        another form than the server declares."""
        request = self._client.call_tool(name, dict(arguments))
        try:
            result: CallToolResult = self._waited(request, self._deadline_s)
        except mcp.MCPError as error:
            self._asked(self._client.list_tools(cache_mode="bypass"), self._deadline_s)  # whether it is there at all
            raise CallRefused(_told(error, self._deadline_s)) from error
        except OSError as error:
            raise ServerLost(_told(error, self._deadline_s)) from error
        return result

    def close(self) -> None:
        """End the connection, and the server if it was started here. Safe to repeat."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
                self._loop.call_soon_threadsafe(self._stop)
            self._thread.join(CLOSE_S)

    def _asked(self, request: Coroutine[Any, Any, T], deadline_s: float) -> T:
        try:
            return self._waited(request, deadline_s)
        except (mcp.MCPError, OSError, ValueError, RuntimeError) as error:
            raise ServerLost(_told(error, deadline_s)) from error

    def _waited(self, request: Coroutine[Any, Any, T], deadline_s: float) -> T:
        if not self._thread.is_alive():
            request.close()
            raise ServerLost("it has ended")
        answer = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return answer.result(deadline_s)
        except TooLate as error:
            answer.cancel()
            raise ServerLost(_told(error, deadline_s)) from error

    def _run(self) -> None:
        self._stopping: asyncio.Event | None = None
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            self._loop.close()

    async def _live(self) -> None:
        self._stopping = asyncio.Event()
        self._task = asyncio.current_task()
        async with self._opened() as client:
            self._ready.set_result(client)
            await self._stopping.wait()

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[Any]:
        if isinstance(self._server, str):
            async with mcp.Client(self._server, read_timeout_seconds=max(self._deadline_s, self._start_s)) as client:
                yield client
            return
        command, *arguments = self._server
        started = mcp.StdioServerParameters(command=command, args=arguments, env=self._env or None)
        with open(os.devnull, "w") as nowhere:
            async with mcp.Client(
                mcp.stdio_client(started, errlog=nowhere), read_timeout_seconds=max(self._deadline_s, self._start_s)
            ) as client:
                yield client

    def _stop(self) -> None:
        if self._ready.done() and self._ready.exception() is None and self._stopping is not None:
            self._stopping.set()
        elif self._task is not None:  # still opening
            self._task.cancel()

    _task: asyncio.Task[Any] | None = None


def _told(error: BaseException, deadline_s: float) -> str:
    """One line on what went wrong; of a group of errors, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError | TooLate):
        return f"it did not answer within {deadline_s:g} s"
    said = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
