"""What only the environment knows of a task, as a dataclass: ``Task.private`` is written by it and read through it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Self

from turngate.errors import ConfigError
from turngate.types import Task


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TaskData:
    """Base class. Each field of a subclass is an entry of ``Task.private``; one at its default has none.

    A subclass has ``repr=False`` too: what it holds must not get into a message.
    """

    def private(self) -> dict[str, object]:
        """The entries of ``Task.private``."""
        known = ((item, getattr(self, item.name)) for item in fields(self))
        return {item.name: value for item, value in known if item.default is MISSING or value != item.default}

    @classmethod
    def of(cls, task: Task) -> Self:
        """The data of a task, whose other entries are left alone. Raises ConfigError where an entry is missing."""
        private = task.private
        try:
            return cls(**{item.name: private[item.name] for item in fields(cls) if item.name in private})
        except TypeError:
            needed = [item.name for item in fields(cls) if item.default is MISSING]
            missing = ", ".join(f"'{name}'" for name in needed if name not in private)
            raise ConfigError(
                f"task '{task.id}' has no {missing} in its private part, which {task.env_id} needs; "
                "of a task that was stored, the private part is gone: take it from its source"
            ) from None
