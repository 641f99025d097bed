"""What ``turngate/Search-v1`` knows of a task besides its question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.task_data import TaskData
from turngate.types import JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SearchTask(TaskData):
    """The right answers, and the documents that lead to them."""

    gold: Sequence[str]
    """Right answers; empty: there is none, or ``nuggets`` say what is right."""
    corpus: Mapping[str, JSON] | None = None
    """The table of the part that gives the documents; None: a server has them."""
    documents: Sequence[str] = ()
    """Ids of the documents or passages that are needed."""
    path: Sequence[str] = ()
    """Documents in the order in which they lead to the answer."""
    titles: Sequence[str] = ()
    """Titles of ``documents``."""
    links: Sequence[str] = ()
    """What leads from each document of the path to the next."""
    between: Sequence[str] | None = None
    """The names that have to be read on the path; None: the titles after the first one."""
    nuggets: Sequence[Mapping[str, str]] = ()
    """Statements of a long answer (see ``nugget_rows.py``)."""
    closed_book: bool = False
    """Whether the documents are withheld."""
