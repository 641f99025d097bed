"""Questions without the documents: the agent has to answer from what it knows."""

from __future__ import annotations

from dataclasses import replace

from turngate.envs.search.task import SearchTask
from turngate.types import Task


def is_search(task: Task) -> bool:
    """Whether documents belong to the task, so that they can be withheld."""
    return {"gold", "documents"} <= task.private.keys()


def closed_book(task: Task) -> Task:
    """The same task with ``answer`` as its only tool. It keeps its id; its episodes have the fact ``closed_book``."""
    return replace(task, private={**task.private, "closed_book": True})


def is_closed_book(task: Task) -> bool:
    """Whether ``task`` comes from ``closed_book``."""
    return SearchTask.of(task).closed_book
