"""The seam for guidance: who gets help, planned from past unguided results.

A guide plans one entry per sibling (None = unguided). Rollouts inject what it plans, credit keeps guided and unguided
siblings in cohorts of their own, and evaluation never asks a guide.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from turngate.parts import Part
from turngate.types import Guidance, Metrics, ScoredGroup, Task


class Guide(Protocol):
    """Plans help and learns from results."""

    def plan(self, task: Task, group_size: int) -> Sequence[Guidance | None]:
        """One entry per sibling."""
        ...

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """See the results of a step."""
        ...

    def metrics(self) -> Metrics:
        """What to report, ``guide/…``."""
        ...


class GuidePart(Part):
    """Who gets help: opens a ``Guide``. A subclass writes ``open``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "guide"
    fallback: ClassVar[str] = "none"

    @abstractmethod
    def open(self) -> Guide:
        """The guide of one run."""


class NoGuidePart(GuidePart):
    """Nobody gets help."""

    type: Literal["none"] = "none"

    def open(self) -> Guide:
        """A guide that plans nothing."""
        return NoGuide()


class NoGuide:
    """Nobody gets help."""

    def plan(self, task: Task, group_size: int) -> Sequence[Guidance | None]:
        """All unguided."""
        return (None,) * group_size

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Nothing to learn from."""

    def metrics(self) -> Metrics:
        """Nothing to report."""
        return {}
