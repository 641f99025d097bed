"""What ``turngate/ToolUse-v1`` knows of a task besides its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.task_data import TaskData
from turngate.envs.tooluse.engine.goals import Goal
from turngate.types import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolTask(TaskData):
    """The world in which the task is played, calls that solve it, and what has to hold in the end."""

    calls: Sequence[ToolCall]
    """The gold calls, in their order."""
    goals: Sequence[Goal]
    world: Mapping[str, object] | None = None
    """The table of the world's part; None: the one that the environment names."""
    state: Mapping[str, object] | None = None
    """The first state of the world, of the form that the world takes; None: its own."""
