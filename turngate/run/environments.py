"""What a run plays: one environment or several, each under the name that it has in the run.

A task is stamped with that name (``Task.env_id``), so that wherever it goes it is known whose it is: which pool plays
it, which rubric pays it, in which group of results it counts. Where there are several environments its id begins with
the name too, because ids of tasks are unique in one environment only.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Self

from turngate.agents.rollout import Worlds
from turngate.config import EnvSection
from turngate.envs.base import TurnEnv
from turngate.envs.pool import EnvPool
from turngate.envs.pools import EnvPools, maker
from turngate.envs.registry import find, make
from turngate.errors import ConfigError, MissingExtra, UnknownName, UserError
from turngate.rewards import Rubric
from turngate.trainer.curriculum import TaskStream, shares
from turngate.types import Group, ScoredGroup, Task, derive_seed

_log = logging.getLogger(__name__)


class Environments:
    """The environments of a run. Use it inside ``with``: it holds one of each, for tasks, oracles and rubrics.

    Raises ConfigError for an unknown split, a rubric that is unsafe without ``allow_unsafe``, and what an environment's
    constructor refuses. Without ``trained`` nothing is learned from what rubrics pay, and unsafe ones are taken.
    """

    def __init__(self, sections: Sequence[EnvSection], *, trained: bool = True) -> None:
        self.sections: Mapping[str, EnvSection] = {section.label: section for section in sections}
        self._envs: dict[str, TurnEnv] = {}
        self.rubrics: dict[str, Rubric] = {}
        self.unsafe: dict[str, str] = {}
        try:
            for label, section in self.sections.items():
                place = "env" if len(self.sections) == 1 else f"env[{len(self._envs)}]"
                with told_at(f"{place}.id"):
                    find(section.id)
                with told_at(f"{place}.kwargs"):
                    self._envs[label] = env = builder(section)()
                with told_at(f"{place}.split"):
                    env.tasks.size(section.split)  # raises for an unknown split, before any work
                self.rubrics[label] = rubric = section.rubric or _own_rubric(env)
                problem = accept(rubric, label, allow_unsafe=section.allow_unsafe) if trained else ""
                if problem:
                    self.unsafe[label] = problem
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every environment; one that cannot be is named in a warning, and spares the others and the run."""
        for label, env in self._envs.items():
            try:
                env.close()
            except (Exception, SystemExit) as error:
                _log.warning("'%s' could not be closed; processes or files of it may be left behind: %r", label, error)

    def __iter__(self) -> Iterator[tuple[str, TurnEnv]]:
        """Name and environment, in the order of the config."""
        return iter(self._envs.items())

    def __getitem__(self, label: str) -> TurnEnv:
        """The environment of that name."""
        return self._envs[label]

    def of(self, task: Task) -> TurnEnv:
        """The environment that a task belongs to."""
        return self._envs[task.env_id]

    def find(self, task_id: str) -> Task:
        """The task of that id; where there are several environments it begins with the name of one, ``NAME:ID``.

        Raises UnknownName.
        """
        if len(self._envs) == 1:
            (label,) = self._envs
            return self._stamped(label, self._envs[label].tasks.find(task_id))
        label, _, own_id = task_id.partition(":")
        if label not in self._envs:
            raise UnknownName("environment of a task", label, self._envs, hint="write NAME:ID")
        return self._stamped(label, self._envs[label].tasks.find(own_id))

    def score(self, group: Group, step: int = 0) -> ScoredGroup:
        """What the group was paid, by the rubric of its environment."""
        return self.rubrics[group.task.env_id].score_group(group, step)

    def score_demonstration(self, group: Group, examined: Collection[str]) -> ScoredGroup:
        """What a group that no examiner saw was paid: by the environment's own rubric if the run's reads ``examined``.

        These are the names of what examiners record. Raises ConfigError if the environment has no rubric of its own.
        """
        label = group.task.env_id
        rubric = self.rubrics[label]
        unread = rubric.readers.keys().isdisjoint(examined)
        return (rubric if unread else _own_rubric(self._envs[label])).score_group(group)

    def heldout(self, label: str, split: str, count: int) -> list[Task]:
        """The first ``count`` tasks of a split, or all of a smaller one."""
        return [self.task(label, split, index) for index in self.indices(label, split, count)]

    def indices(self, label: str, split: str, count: int) -> range:
        """The first ``count`` places of a split, or all of a smaller one."""
        size = self._envs[label].tasks.size(split)
        return range(count if size is None else min(size, count))

    def task(self, label: str, split: str, index: int) -> Task:
        """The task at one place of a split."""
        return self._stamped(label, self._envs[label].tasks.task(split, index))

    def split(self, n: int) -> dict[str, int]:
        """``n`` things shared among the environments by their weights."""
        weights = [section.weight for section in self.sections.values()]
        return dict(zip(self.sections, shares(weights, n, seed=0, step=0), strict=True))

    def _stamped(self, label: str, task: Task) -> Task:
        own_id = task.id if len(self.sections) == 1 else f"{label}:{task.id}"
        return replace(task, env_id=label, id=own_id)

    def stream(self, *, per_step: int, seed: int, first: Mapping[str, int]) -> Callable[[int], list[Task]]:
        """From the number of a step, counted from 1, to its tasks: a pure function, so a resumed run skips nothing.

        Every step has ``per_step`` tasks, shared among the environments by their weights. ``first``: by name, how many
        tasks of an endless source the warm start has used.
        """
        parts = tuple(self._streams(per_step, seed, first))
        weights = [self.sections[label].weight for label, _ in parts]

        def at(step: int) -> list[Task]:
            counts = shares(weights, per_step, seed=seed, step=step)
            return [
                self._stamped(label, task)
                for (label, stream), count in zip(parts, counts, strict=True)
                for task in stream.at(step)[:count]
            ]

        return at

    @asynccontextmanager
    async def worlds(self, size: int) -> AsyncIterator[Worlds]:
        """Where episodes are played: at most ``size`` at once of each environment."""
        pools = {
            label: EnvPool(maker(section.id, **section.arguments), size=size, isolation=section.isolation)
            for label, section in self.sections.items()
        }
        async with EnvPools(pools) as worlds:
            yield worlds

    def _streams(self, per_step: int, seed: int, first: Mapping[str, int]) -> Iterator[tuple[str, TaskStream]]:
        """The tasks of each environment, as many per step as it can ever get."""
        whole = sum(section.weight for section in self.sections.values())
        for label, section in self.sections.items():
            most = min(per_step, math.ceil(per_step * section.weight / whole - 1e-9))
            own_seed = seed if len(self.sections) == 1 else derive_seed(seed, label)
            yield (
                label,
                TaskStream(
                    self._envs[label].tasks,
                    section.split,
                    per_step=most,
                    seed=own_seed,
                    first=first.get(label, 0),
                    together=section.together,
                ),
            )


@contextmanager
def told_at(key: str) -> Iterator[None]:
    """Whatever is wrong inside is told with the key that it stands at. Raises ConfigError, MissingExtra."""
    try:
        yield
    except MissingExtra:  # says what to install
        raise
    except UserError as error:
        said = str(error)
        if said.startswith(("tasks.", "tasks:")):  # a task source names its own key, beside that of the constructor
            raise ConfigError(f"{key.rpartition('.')[0]}.{said}") from error
        raise ConfigError(f"{key}: {said}") from error


def builder(section: EnvSection) -> Callable[[], TurnEnv]:
    """Makes the environment of a section; it can be pickled for a process of its own."""
    return partial(make, section.id, **section.arguments)


def accept(rubric: Rubric, label: str, *, allow_unsafe: bool) -> str:
    """What is unsafe about a rubric, in words, where that was allowed; empty if it is safe.

    Raises ConfigError for an unsafe rubric, with the episode that shows it, and for ``allow_unsafe`` without effect.
    """
    safety = rubric.check()
    if safety.safe:
        if allow_unsafe:
            raise ConfigError(f"env.allow_unsafe has no effect: the rubric of '{label}' is safe; leave it out")
        return ""
    problem = safety.problems[0]
    if not allow_unsafe:
        raise ConfigError(
            f"the rubric of '{label}' is unsafe: {problem}; repair it, or set env.allow_unsafe = true to train anyway"
        )
    return problem


def _own_rubric(env: TurnEnv) -> Rubric:
    rubric = env.turn_spec.rubric
    if not isinstance(rubric, Rubric):
        raise ConfigError(
            f"{type(env).__name__} brings a {type(rubric).__name__}, not a turngate.Rubric; set env.rubric"
        )
    return rubric
