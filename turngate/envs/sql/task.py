"""What ``turngate/Sql-v1`` knows of a task besides its question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turngate.envs.task_data import TaskData


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SqlTask(TaskData):
    """A gold query, and the database that it asks: the path of a file, or an image. ``key`` names its content."""

    database: bytes | str
    key: str
    gold: str
    ordered: bool
    """Whether the order of the rows counts."""
    tables: tuple[str, ...] = ()
    """The tables that the gold query reads."""
    ranked: str = ""
    """The gold query with the ranks of its rows, where some of them tie in its ORDER BY."""
    shape: str = ""
    family: str = ""
    level: int | None = None
    frame: str = ""
    """The gold query with ``{0}``, ``{1}`` … in place of the conditions that have to be looked up."""
    needs: tuple[Mapping[str, str], ...] = ()
    """The look-ups for these conditions (``LookupNeed``), in their order."""
    near_misses: tuple[str, ...] = ()
    """Queries of a hasty reader; their rows are not those of the gold query."""
