"""What a curriculum is, and what it is given: the tasks of the run, in their order or as pools to choose from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError
from turngate.parts import Part
from turngate.types import Metrics, ScoredGroup, Task

Numbers: TypeAlias = npt.NDArray[np.float64]
"""One number for each of some tasks."""
Places: TypeAlias = npt.NDArray[np.int64]
"""Positions of some tasks in the pools of a run, end to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPool:
    """The tasks of one environment that a curriculum chooses from: ``task(0)`` … ``task(size - 1)``."""

    label: str
    weight: float
    size: int
    task: Callable[[int], Task]


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """The tasks of a run, from which a curriculum chooses.

    ``in_order(number)`` gives the tasks of one batch after another, counted from 1, in the order of the splits.
    ``pools(size)`` gives the pool of each environment: the first ``size`` tasks of its split; None: all of them.
    ``refilled``: whether a step can ask for more tasks than ``per_step``.
    """

    in_order: Callable[[int], Sequence[Task]]
    pools: Callable[[int | None], Sequence[TaskPool]]
    per_step: int
    group_size: int
    seed: int
    refilled: bool = False


class Curriculum(Protocol):
    """Chooses the tasks of each step, and learns from their results.

    What it chooses depends on the seed of the run, the number of the step and its state alone. ``stateful``: whether
    results change what it chooses; a checkpoint then keeps its state.
    """

    stateful: bool

    def pick(self, step: int) -> list[Task]:
        """The tasks of one step, all different; ``step`` counts from 1."""
        ...

    def more(self, n: int) -> list[Task]:
        """``n`` further tasks of the step that was picked last, or as many as are left: none comes twice in a step."""
        ...

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Take in the results of the step that was picked last. Guided episodes and those with prefix turns are passed
        over."""
        ...

    def metrics(self) -> Metrics:
        """Metrics of the curriculum, named ``curriculum/…``."""
        ...

    def save(self, path: Path) -> None:
        """Write the whole state, for a checkpoint."""
        ...

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        ...


class CurriculumPart(Part):
    """Which tasks a step plays. A subclass writes ``open``, which returns a ``Curriculum``."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "curriculum"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.curriculum",)
    fallback: ClassVar[str] = "order"

    @abstractmethod
    def open(self, supply: Supply) -> Curriculum:
        """The curriculum of one run. Raises ConfigError for settings that do not fit the tasks of the run."""


def pool_of(
    label: str, weight: float, size: int | None, most: int | None, *, per_step: int, task: Callable[[int], Task]
) -> TaskPool:
    """The pool of an environment whose split has ``size`` tasks (None: endless), ``most`` of which are wanted.

    ``per_step``: how many of them a step can need. Raises ConfigError for a pool without an end, and for one that
    leaves nothing to choose.
    """
    if most is None and size is None:
        raise ConfigError(
            f"curriculum.pool: the tasks of '{label}' never end; say how many of them there are to choose from, for "
            f"instance {32 * per_step}"
        )
    n = min(n for n in (most, size) if n is not None)
    if n <= per_step:
        raise ConfigError(
            f"curriculum.pool: '{label}' has {n} tasks to choose from, and a step plays up to {per_step} of them, so "
            'there is no choice; raise the pool, or use curriculum.type = "order"'
        )
    return TaskPool(label=label, weight=weight, size=n, task=cache(task))
