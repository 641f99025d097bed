"""A connection to an MCP server, by the ``mcp`` package, for callers that are no coroutines.

The client lives in a loop in a thread of its own. Every wait has a deadline. Closing it ends the server that it started
and all processes that this one started; so does the end of this process, however it comes about (``server_guard.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as TooLate
from typing import TYPE_CHECKING, Any, TypeVar

from turngate.envs.tooluse.engine import server_guard
from turngate.parts import when_used
from turngate.servers import is_down

if TYPE_CHECKING:
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

mcp = when_used("mcp", "mcp")
streamable_http = when_used("mcp.client.streamable_http", "mcp")
http_client = when_used("turngate.servers.http_client", "mcp")

T = TypeVar("T")

CLOSE_S = 10.0
"""Longest time that a server is given to end, and to be killed."""
_log = logging.getLogger(__name__)

MOST_PAGES = 20
"""Most pages of a list of tools that are read."""


class ServerLost(Exception):
    """The server does not answer, or not as an MCP server would; the message says how."""


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
        self._lock, self._ended = threading.Lock(), False
        self._ready: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, name="turngate mcp", daemon=True)
        self._thread.start()
        try:
            self._client = self._ready.result(start_s)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise ServerLost(_error_line(error, start_s)) from error
            raise

    def tools(self) -> list[ServerTool]:
        """The server's tools, as ``mcp.Tool``. Raises ServerLost."""
        found: list[ServerTool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = self._asked(self._client.list_tools(cursor=cursor), self._start_s)
            found += page.tools
            before, cursor = cursor, page.next_cursor
            if not cursor:  # some servers say with an empty one that there is no more
                return found
            if cursor == before:
                raise ServerLost(f"its list of tools does not end: the page after {cursor!r:.80} is that page again")
        raise ServerLost(f"its list of tools has more than {MOST_PAGES} pages")

    def call(self, name: str, arguments: Mapping[str, object]) -> CallToolResult:
        """The ``mcp`` result of a call. Raises ServerLost, CallRefused, and RuntimeError or ValueError for a result of
        another form than the server declares."""
        request = self._client.call_tool(name, dict(arguments))
        try:
            result: CallToolResult = self._waited(request, self._deadline_s)
        except mcp.MCPError as error:
            self._asked(self._client.list_tools(cache_mode="bypass"), self._deadline_s)  # whether it is there at all
            raise CallRefused(_error_line(error, self._deadline_s)) from error
        except Exception as error:
            if isinstance(error, ServerLost | RuntimeError | ValueError) or not is_down(error):
                raise
            raise ServerLost(_error_line(error, self._deadline_s)) from error
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
        except Exception as error:
            if isinstance(error, ServerLost) or not (isinstance(error, RuntimeError) or is_down(error)):
                raise
            raise ServerLost(_error_line(error, deadline_s)) from error

    def _waited(self, request: Coroutine[Any, Any, T], deadline_s: float) -> T:
        with self._lock:
            if self._ended:
                request.close()
                raise ServerLost("it has ended")
            answer = asyncio.run_coroutine_threadsafe(request, self._loop)
        try:
            return answer.result(deadline_s)
        except CancelledError as error:  # by the end of the loop
            raise ServerLost("it has ended") from error
        except TooLate as error:
            answer.cancel()
            raise ServerLost(_error_line(error, deadline_s)) from error

    def _run(self) -> None:
        self._stopping: asyncio.Event | None = None
        noise = _Noise(self._server)
        try:
            with noise.counted():
                self._loop.run_until_complete(self._live())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            with self._lock:
                self._ended = True
            self._loop.run_until_complete(_cancel_others())  # else callers would wait until the deadline
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
            async with http_client.bounded_client() as http:
                transport = streamable_http.streamable_http_client(self._server, http_client=http)
                read_s = max(self._deadline_s, self._start_s)
                async with mcp.Client(transport, read_timeout_seconds=read_s) as client:
                    yield client
            return
        command, *arguments = _guarded(self._server, self._env)
        started = mcp.StdioServerParameters(
            command=command,
            args=arguments,
            env=self._env or None,
            encoding_error_handler="replace",  # one letter that is no UTF-8 would end the connection
        )
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
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


async def _cancel_others() -> None:
    """Cancel all other tasks of the loop, also those that have not begun, and wait for their ends."""
    await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSE_S)


def _guarded(command: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
    """The command behind a guard. Raises FileNotFoundError where there is no such program."""
    if shutil.which(command[0], path=env.get("PATH")) is None:
        raise FileNotFoundError(f"there is no program '{command[0]}'")
    return [sys.executable, "-I", "-S", server_guard.__file__, str(os.getpid()), *command]


class _Noise(logging.Filter):
    """Output of a server that is no message: reported once and counted, where the client logs a traceback for each.

    It counts records of the connection's thread.
    """

    def __init__(self, server: tuple[str, ...] | str) -> None:
        super().__init__()
        name = (server if isinstance(server, str) else " ".join(server))[:200]
        self._said = (
            f"'{name}' gives answers that are no messages of MCP; the calls fail"
            if isinstance(server, str)
            else f"'{name}' prints lines that are no messages of MCP; they are passed over"
        )
        self._thread, self._n = threading.get_ident(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is about something else."""
        if record.thread != self._thread or record.exc_info is None:
            return True
        self._n += 1
        if self._n == 1:
            _log.warning("%s", self._said)
        return False

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Keep the client's tracebacks to itself meanwhile, and say at the end how many they were."""
        loggers = [logging.getLogger(f"mcp.client.{name}") for name in ("stdio", "streamable_http")]
        for logger in loggers:
            logger.addFilter(self)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(self)
            if self._n:
                _log.info("%s; there were %d of them", self._said, self._n)


def _error_line(error: BaseException, deadline_s: float) -> str:
    """The error in one line; of a group of errors, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError | TooLate):
        return f"it did not answer within {deadline_s:g} s"
    said = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
