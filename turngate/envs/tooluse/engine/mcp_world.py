"""The tools of MCP servers (Model Context Protocol) as a world: a command that is started here, or an address.

A server that a call has written to is started again (or gets a new session) for the next episode. An error of a server
does not end an episode, unless it cannot be started again: a call that it does not answer, or answers with something
else than it declares, is an observation, and a server that was lost stays lost until the episode ends.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from turngate.envs.tooluse.engine.mcp_connection import CallRefused, McpConnection, ServerLost
from turngate.envs.tooluse.engine.schema_tool import SchemaTool, schema_tool
from turngate.envs.tooluse.engine.world import CallReply, OpenWorld, ToolWorld
from turngate.errors import ConfigError, EnvError
from turngate.tools.tool import Tool
from turngate.types import JSON, ToolCall

MOST_TOOLS = 256
"""More tools than that are a flood."""


class McpServer(ToolWorld):
    """Base of the worlds whose tools an MCP server has."""

    deadline_s: float = Field(20.0, gt=0)
    """Longest time that the server may take for each call."""
    start_s: float = Field(60.0, gt=0)
    """Longest time that it may take to start, and to say which tools it has."""

    @abstractmethod
    def connect(self) -> McpConnection:
        """A new connection. Raises ServerLost."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The server's name for messages."""

    @property
    def outside(self) -> str:
        return f"the MCP server '{self.title}', whose state cannot be put back"

    def open(self) -> OpenWorld:
        return McpWorld(self)


class McpStdio(McpServer):
    """An MCP server that is started as a command and speaks over its standard input and output."""

    type: Literal["mcp_stdio"] = "mcp_stdio"
    command: tuple[str, ...] = Field(min_length=1)
    """The command and its arguments, for instance ["python", "server.py"]."""
    env: Mapping[str, str] = Field(default_factory=dict)
    """Variables that it gets beside the few that are safe to hand over (PATH, HOME, USER …)."""

    def connect(self) -> McpConnection:
        """Start it."""
        return McpConnection(self.command, env=self.env, deadline_s=self.deadline_s, start_s=self.start_s)

    @property
    def title(self) -> str:
        """The command."""
        return " ".join(self.command)


class McpHttp(McpServer):
    """An MCP server that runs already and speaks streamable HTTP."""

    type: Literal["mcp_http"] = "mcp_http"
    url: str = Field(pattern=r"^https?://\S+$")
    """Its address, for instance http://localhost:8000/mcp."""

    def connect(self) -> McpConnection:
        """A new session."""
        return McpConnection(self.url, env={}, deadline_s=self.deadline_s, start_s=self.start_s)

    @property
    def title(self) -> str:
        """The address."""
        return self.url


class McpWorld:
    """The tools of one MCP server. See ``OpenWorld``. Its state cannot be known.

    Raises ConfigError where no MCP server answers, for one without tools and for tools that cannot be called by name.
    """

    fork: Literal["exact", "none"] = "none"
    knows_state = False

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._connection: McpConnection | None = None
        self._written, self._lost = False, ""
        try:
            self._connection = server.connect()
            self.tools: tuple[Tool, ...] = tuple(_tool(one) for one in self._listed(self._connection))
        except ServerLost as problem:
            self.close()
            raise ConfigError(
                f"'{server.title}' is no MCP server that can be used: {problem}; try it by: turngate tools"
            ) from None
        except BaseException:
            self.close()
            raise

    def start(self, initial: Mapping[str, object] | None) -> None:
        """See ``OpenWorld.start``. Raises ConfigError for a first state, which no server takes."""
        if initial is not None:
            raise ConfigError("a task for an MCP server cannot have a state; the server has its own")
        if self._written or self._lost or self._connection is None:
            self._reconnect()
        self._written, self._lost = False, ""

    def call(self, tool: Tool, arguments: Mapping[str, object], call: ToolCall) -> CallReply:
        if self._lost or self._connection is None:
            return CallReply(text=f"error: the tools cannot be reached any more: {self._lost}", ok=False)
        self._written |= not tool.read_only
        try:
            result = self._connection.call(tool.name, arguments)
        except ServerLost as problem:
            return self._after_loss(str(problem))
        except CallRefused as problem:
            return CallReply(text=f"error: {problem}", ok=False)
        except (RuntimeError, ValueError, TypeError) as problem:  # not the form that the server itself declares
            said = " ".join(str(problem).split())[:200]
            return CallReply(text=f"error: the tool answered in a form that it does not declare: {said}", ok=False)
        text = "\n".join(_text(block) for block in result.content) or _structured(result) or "(nothing)"
        return CallReply(text=f"error: {text}" if result.is_error else text, ok=not result.is_error)

    def state(self) -> JSON:
        """None: a server does not show its state."""
        return None

    def save(self) -> object:
        """Raises EnvError: a server cannot be copied."""
        raise EnvError("an MCP server cannot be copied")

    def load(self, saved: object) -> None:
        """Raises EnvError: a server cannot be copied."""
        raise EnvError("an MCP server cannot be copied")

    def close(self) -> None:
        """End the connection, and the server if it was started here."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _listed(self, connection: McpConnection) -> list[Any]:
        """The tools as the server lists them. Raises ServerLost, and ConfigError for too many and for bad names."""
        listed, said = connection.tools(), self._server.title
        if not 0 < len(listed) <= MOST_TOOLS:
            raise ConfigError(f"the MCP server '{said}' has {len(listed)} tools; it needs 1 to {MOST_TOOLS}")
        if bad := [one.name for one in listed if not one.name.isprintable() or len(one.name.split()) != 1]:
            raise ConfigError(
                f"the MCP server '{said}' has a tool named {bad[0]!r:.80}; names have no blanks and no control "
                "characters"
            )
        return listed

    def _after_loss(self, problem: str) -> CallReply:
        """A call that the server did not survive: an error for the agent if a new server works, else one of the
        environment."""
        self._reconnect()
        self._lost = problem
        return CallReply(text=f"error: the tool server failed: {problem}", ok=False)

    def _reconnect(self) -> None:
        self.close()
        try:
            self._connection = self._server.connect()
        except ServerLost as problem:
            raise EnvError(f"the MCP server '{self._server.title}' cannot be started again: {problem}") from None


def _tool(listed: Any) -> SchemaTool:
    marks = listed.annotations
    read_only = bool(marks and marks.read_only_hint)
    return schema_tool(listed.name, listed.description or "", listed.input_schema, read_only=read_only)


def _text(block: Any) -> str:
    """A block of a result as text: its own, that of the resource which is embedded in it, or its link; for a block
    without any of these, its kind."""
    for holder in (block, getattr(block, "resource", None)):
        text = getattr(holder, "text", None)
        if isinstance(text, str):
            return text
    where = getattr(block, "uri", None) or getattr(getattr(block, "resource", None), "uri", None)
    name = getattr(block, "name", None)
    return f"[{' '.join([block.type, *(str(one) for one in (name, where) if one)])}]"


def _structured(result: Any) -> str:
    """The structured content of a result as JSON; "" if there is none."""
    content = result.structured_content
    return "" if content is None else json.dumps(content, ensure_ascii=False)
