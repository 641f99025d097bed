"""Guidance: a guide decides which episodes get help, such as a hint, from the results of past unguided ones.

A guide plans one entry per sibling (None = unguided). Rollouts put the planned help into the context, and credit
compares guided siblings with guided ones only, unguided with unguided. Evaluation never asks a guide.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from turngate.parts import Part
from turngate.types import Guidance, Metrics, ScoredGroup, Task


class Guide(Protocol):
    """Plans which siblings get help, and learns from results."""

    def plan(self, task: Task, group_size: int) -> Sequence[Guidance | None]:
        """One entry per sibling."""
        ...

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Take in the results of a step."""
        ...

    def metrics(self) -> Metrics:
        """Metrics of the guide, named ``guide/…``."""
        ...


class GuidePart(Part):
    """Which episodes get help. A subclass writes ``open``, which returns a ``Guide``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "guide"
    fallback: ClassVar[str] = "none"

    @abstractmethod
    def open(self) -> Guide:
        """The guide of one run."""


class NoGuidePart(GuidePart):
    """No guidance: no episode gets help."""

    type: Literal["none"] = "none"

    def open(self) -> Guide:
        """A guide that plans nothing."""
        return NoGuide()


class NoGuide:
    """Plans no guidance."""

    def plan(self, task: Task, group_size: int) -> Sequence[Guidance | None]:
        """None for every sibling."""
        return (None,) * group_size

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Does nothing."""

    def metrics(self) -> Metrics:
        """No metrics."""
        return {}
