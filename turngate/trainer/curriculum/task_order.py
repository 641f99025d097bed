"""The tasks in the order of their splits: a function of seed and number, so a resumed run repeats and skips none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.curriculum.base import CurriculumPart, Supply
from turngate.types import Metrics, ScoredGroup, Task, derive_seed


class Tasks(Protocol):
    """Tasks by split and number (see ``turngate.envs.tasks``)."""

    def size(self, split: str) -> int | None:
        """How many tasks ``split`` holds; None = endless."""
        ...

    def task(self, split: str, index: int) -> Task:
        """Task ``index`` (0-based) of ``split``."""
        ...


class TaskStream:
    """The tasks of each step. An endless split gives tasks ``first, first+1, …``, each once; a finite one is shuffled
    in each epoch.

    ``together`` is the number of neighbouring tasks of the split, counted from task 0, that always come in the same
    step, for instance 2 for two wordings of one question. Raises ConfigError for a split that is smaller than
    ``per_step``, and for a size or ``per_step`` that is not a multiple of ``together``.
    """

    def __init__(
        self, tasks: Tasks, split: str, *, per_step: int, seed: int, first: int = 0, together: int = 1
    ) -> None:
        size = tasks.size(split)
        if size is not None and size < per_step:
            raise ConfigError(f"split '{split}' holds {size} tasks, fewer than tasks_per_step = {per_step}")
        for name, number in (("tasks_per_step", per_step), (f"the size of split '{split}'", size or 0)):
            if number % together:
                raise ConfigError(f"{name} is {number}, which is not a multiple of env.together = {together}")
        self._tasks, self._split, self._seed, self._size = tasks, split, seed, size
        self._per_step, self._together = per_step, together
        self._first = -(-first // together) * together  # a group of which some tasks come before ``first`` is skipped

    def at(self, step: int) -> list[Task]:
        """The tasks of one step, all different; ``step`` counts from 1."""
        start = (step - 1) * self._per_step
        if self._size is None:
            indices = range(self._first + start, self._first + start + self._per_step)
            return [self._tasks.task(self._split, index) for index in indices]
        per_epoch = self._size // self._per_step  # a step never mixes two epochs, so its tasks differ
        epoch, place = divmod(step - 1, per_epoch)
        order = np.random.default_rng(derive_seed(self._seed, "epoch", epoch)).permutation(self._size // self._together)
        blocks = self._per_step // self._together
        chosen = order[place * blocks : (place + 1) * blocks, None] * self._together + np.arange(self._together)
        return [self._tasks.task(self._split, int(index)) for index in chosen.ravel()]


def shares(weights: Sequence[float], n: int, *, seed: int, step: int) -> tuple[int, ...]:
    """How many of a step's ``n`` tasks each of several sources gives: whole numbers that sum to ``n``.

    Systematic sampling: source i gets ``⌊n·w_i⌋`` or ``⌈n·w_i⌉`` (w normalised), ``n·w_i`` on average over the steps.
    """
    total = float(sum(weights))
    ends = np.cumsum([n * weight / total for weight in weights])
    ends[-1] = n
    offset = np.random.default_rng(derive_seed(seed, "shares", step)).random() if len(weights) > 1 else 0.0
    reached = np.floor(ends + offset + 1e-9).astype(int)
    reached[-1] = n + int(np.floor(offset + 1e-9))
    return tuple(int(count) for count in np.diff(reached, prepend=int(np.floor(offset + 1e-9))))


class InOrderPart(CurriculumPart):
    """Plays the tasks in the order of their split, whatever their results; a finite split is shuffled in each pass."""

    type: Literal["order"] = "order"

    def open(self, supply: Supply) -> InOrder:
        return InOrder(supply)


class InOrder:
    """Gives each step the next tasks of the order; ``more`` takes those that follow, so that later steps move on.

    The order is that of all batches of the supply, end to end. Without ``more``, the tasks of a step are the batch of
    its number. A task that the step has already is passed over.
    """

    def __init__(self, supply: Supply) -> None:
        self.stateful = supply.refilled
        self._supply = supply
        self._at = self._ahead = 0  # tasks before the next one; how many of them ``more`` took ahead of the steps
        self._taken: set[str] = set()

    def pick(self, step: int) -> list[Task]:
        """The tasks of one step."""
        self._at, self._taken = (step - 1) * self._supply.per_step + self._ahead, set()
        tasks = self._next(self._supply.per_step)
        self._ahead = self._at - step * self._supply.per_step
        return tasks

    def more(self, n: int) -> list[Task]:
        """The tasks that follow; fewer where a whole batch has none that the step does not have already."""
        before = self._at
        tasks = self._next(n)
        self._ahead += self._at - before
        return tasks

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Results change nothing."""

    def metrics(self) -> Metrics:
        """No metrics."""
        return {}

    def save(self, path: Path) -> None:
        """Write how far the order is ahead of the steps."""
        path.write_text(json.dumps({"ahead": self._ahead}), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote."""
        self._ahead = int(json.loads(path.read_text(encoding="utf-8"))["ahead"])

    def _next(self, n: int) -> list[Task]:
        found: list[Task] = []
        in_vain = 0
        while len(found) < n and in_vain < self._supply.per_step:
            number, place = divmod(self._at, self._supply.per_step)
            task = self._supply.in_order(number + 1)[place]
            self._at += 1
            in_vain = in_vain + 1 if task.id in self._taken else 0
            if task.id not in self._taken:
                self._taken.add(task.id)
                found.append(task)
        return found
