"""Hints of a search: how many documents it takes and where to begin, what to look up in turn, which documents."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.envs.search.retrieval_facts import bears_answer
from turngate.envs.search.task import SearchTask
from turngate.types import Task

LEVELS = 3
COVERED = "…"
"""Text in place of a title that holds the answer."""


def search_hint(task: Task, level: int) -> str | None:
    """Level 1 to 3 of a task, each with all that the one before it says; None for another level, and for a task that
    names no documents. A title that holds the answer is left out."""
    asked = SearchTask.of(task)
    titles = [_covered(title, asked.gold) for title in asked.titles]
    if not 1 <= level <= LEVELS or not titles:
        return None
    needs = f"The question needs {len(titles)} document{'s' * (len(titles) > 1)}."
    parts = (
        f"{needs} Search for {'the words of the question' if titles[0] == COVERED else titles[0]} first.",
        f"Look up in turn: {', '.join(asked.links)}." if asked.links else "Search for each name that the question has.",
        f"Documents: {'; '.join(titles)}.",
    )
    return " ".join(parts[:level])


def _covered(title: str, answers: Sequence[str]) -> str:
    return COVERED if bears_answer([title], answers) else title
