"""What ``turngate/Router-v1`` knows of a task besides its question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngate.envs.task_data import TaskData


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RouterTask(TaskData):
    """The right answers, and the models that can be asked."""

    gold: Sequence[str]
    """Right answers."""
    models: str = ""
    """Path of the models that the task brings, as "package.module:NAME"; empty: the environment names them."""
    ask: int | None = None
    """Place of the cheapest model that knows the answer, if that is known."""
