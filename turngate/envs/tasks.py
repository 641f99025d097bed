"""Where tasks come from: procedural sources that make task number ``i`` of a split on demand, and fixed lists."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from turngate.errors import ConfigError, UnknownName
from turngate.types import Task


@runtime_checkable
class TaskSource(Protocol):
    """Tasks by split and number. The same arguments give an equal task, in every process and on every machine."""

    splits: tuple[str, ...]

    def size(self, split: str) -> int | None:
        """How many tasks ``split`` holds; None = as many as you ask for. Raises UnknownName."""
        ...

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` (0-based) of ``split``. Raises UnknownName, IndexError."""
        ...

    def find(self, task_id: str) -> Task:
        """The task of that id. Raises UnknownName."""
        ...


class TaskList:
    """A fixed list of tasks, split by ``Task.split``."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        by_split: dict[str, list[Task]] = {}
        self._by_id: dict[str, Task] = {}
        for task in tasks:
            if task.id in self._by_id:
                raise ConfigError(f"task id '{task.id}' is used twice; ids must be unique")
            self._by_id[task.id] = task
            by_split.setdefault(task.split, []).append(task)
        self._by_split: Mapping[str, list[Task]] = by_split
        self.splits = tuple(by_split)

    def size(self, split: str) -> int:
        """How many tasks ``split`` holds."""
        return len(self._of(split))

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` of ``split``, in the order given."""
        return self._of(split)[index]

    def find(self, task_id: str) -> Task:
        """The task of that id."""
        if task_id not in self._by_id:
            raise UnknownName("task", task_id, self._by_id)
        return self._by_id[task_id]

    def _of(self, split: str) -> list[Task]:
        if split not in self._by_split:
            raise UnknownName("split", split, self.splits)
        return self._by_split[split]
