"""Which tasks a step trains on: a pure function of seed and step, so a resumed run neither repeats nor skips any."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from turngate.errors import ConfigError
from turngate.types import Task, derive_seed


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
    anew each epoch.

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
