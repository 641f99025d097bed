"""Values of ``tasks`` for ``turngate/ToolUse-v1``: files of your own, and tasks that bring their world of tools."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskSource, TaskSourcePart
from turngate.envs.tooluse.engine.mcp_world import McpHttp, McpStdio
from turngate.envs.tooluse.engine.python_world import PythonTools
from turngate.envs.tooluse.engine.world import OpenWorld, ToolWorld
from turngate.envs.tooluse.loaders.task_rows import read_tool_tasks
from turngate.errors import ConfigError


class ToolTaskSource(TaskSourcePart):
    """A source of tasks that are solved with tools."""

    kind: ClassVar[str] = "tool use"
    max_turns: ClassVar[int | None] = None
    """Most turns of an episode unless the config sets another number; None: as the environment has it."""

    def world(self) -> ToolWorld | None:
        """The world that its tasks are played in; None: the one that the environment's ``tools`` name.

        The tasks of a source that has one name it too: ``private["world"]`` is its table.
        """
        return None

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        """The tasks. ``world``: where to try their gold calls out; None: nowhere."""
        raise NotImplementedError(f"{type(self).__name__} must write open(world)")


class ToolTasks(ToolTaskSource):
    """Your own tasks for your own tools. Splits: those that the rows name, else train and heldout."""

    type: Literal["tool_tasks"] = "tool_tasks"
    file: Path
    """JSON lines {"id": …, "prompt": …, "goal": …}, optionally with "state", "gold" and "split"."""
    held_out: int = Field(5, ge=0)
    """Every n-th task goes to heldout, chosen by its id, where a row names no split (5: 20 %); 0 = none."""
    refused: Literal["error", "drop"] = "error"
    """Whether a task whose gold calls do not solve it is an error that names its line, or is left out (drop)."""

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        return read_tool_tasks(self.file_of("file"), world, held_out=self.held_out, drop=self.refused == "drop")


class Lending(ToolTaskSource):
    """Endless errands at the desk of a small library. Splits: train and heldout (other members and books)."""

    type: Literal["lending"] = "lending"
    max_level: int = Field(3, ge=1, le=3)
    """Hardest errands: 1 one thing to do or to say, 2 two, 3 also with something to look up first."""

    def world(self) -> ToolWorld:
        """The desk; see ``lending.py``."""
        return PythonTools(module="turngate.envs.tooluse.generated.lending")

    def open(self, world: OpenWorld | None = None) -> TaskSource:
        from turngate.envs.tooluse.generated.lending_tasks import LendingTasks

        return LendingTasks(max_level=self.max_level)


def named_world(name: str) -> ToolWorld:
    """The world of a name alone: the address of an MCP server (http…), a command that starts one (several words), tasks
    that bring their world (such as retail), or the module or file of Python tools.

    Raises ConfigError for a command that cannot be split into words.
    """
    if name.startswith(("http://", "https://")):
        return McpHttp(url=name)
    if (brought := _brought_by(name)) is not None:
        return brought
    if len(name.split()) == 1 or Path(name).is_file():
        return PythonTools(module=name)
    try:
        return McpStdio(command=tuple(shlex.split(name)))
    except ValueError as error:
        raise ConfigError(f"the command '{name}' cannot be split into words: {error}") from None


def _brought_by(name: str) -> ToolWorld | None:
    """The world of the tasks called ``name``, if they need no settings and have one."""
    if name not in TaskSourcePart.names():
        return None
    source = TaskSourcePart.find(name)
    wants = any(field.is_required() for field in source.model_fields.values())
    return source.load(name).world() if issubclass(source, ToolTaskSource) and not wants else None
