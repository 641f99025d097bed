"""The environments of a run: one or several, each with a name that is unique in the run.

Every task carries the name of its environment in ``Task.env_id``. It decides which pool plays the task, which rubric
pays it and in which evaluation it counts. In a run of several environments the task's id begins with the name too,
``NAME:ID``, because an environment makes ids unique only among its own tasks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Self

from turngate.agents.rollout import Worlds
from turngate.config.run_config import only_trusted
from turngate.config.sections import EnvSection
from turngate.envs.base import TurnEnv
from turngate.envs.pool.cluster_parts import ClusterPart
from turngate.envs.pool.pool import EnvPool
from turngate.envs.pool.pools import EnvPools, maker
from turngate.envs.pool.ray_pool import RayPool
from turngate.envs.registry import find, make
from turngate.errors import ConfigError, MissingExtra, UnknownName, UserError
from turngate.foreign import described
from turngate.rewards import Rubric
from turngate.trainer.curriculum.base import Supply, TaskPool, pool_of
from turngate.trainer.curriculum.task_order import TaskStream, shares
from turngate.types import Group, ScoredGroup, Task, derive_seed

_log = logging.getLogger(__name__)


class Environments:
    """The environments of a run. Use it inside ``with``: it keeps one instance of each, for tasks, oracles and rubrics.

    Episodes are played by the instances of ``worlds``. ``trained=False`` is for an evaluation: nothing is learned from
    payments there, so unsafe rubrics are accepted. ``cluster``: the machines that play them; None: this process.
    Raises ConfigError for an unknown split, for a rubric that is unsafe without ``allow_unsafe``, and for what an
    environment's constructor refuses.
    """

    def __init__(
        self, sections: Sequence[EnvSection], *, trained: bool = True, cluster: ClusterPart | None = None
    ) -> None:
        self._cluster = cluster
        self.sections: Mapping[str, EnvSection] = {section.label: section for section in sections}
        self._envs: dict[str, TurnEnv] = {}
        self.rubrics: dict[str, Rubric] = {}
        self.unsafe: dict[str, str] = {}
        try:
            with only_trusted():
                for section in self.sections.values():
                    self._open(section, trained=trained)
        except BaseException:
            self.close()
            raise

    def _open(self, section: EnvSection, *, trained: bool) -> None:
        label = section.label
        place = "env" if len(self.sections) == 1 else f"env[{len(self._envs)}]"
        with naming_key(f"{place}.id"):
            find(section.id)
        with naming_key(f"{place}.kwargs"):
            self._envs[label] = env = builder(section)()
        with naming_key(f"{place}.split"):
            env.tasks.size(section.split)  # raises for an unknown split, before any work
        rubric = section.rubric or _own_rubric(env)
        if section.rubric_adds is not None:
            with naming_key(f"{place}.rubric_adds"):
                rubric = section.rubric_adds.joined(rubric)
        self.rubrics[label] = rubric
        problem = accept(rubric, label, allow_unsafe=section.allow_unsafe) if trained else ""
        if problem:
            self.unsafe[label] = problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every environment. One that cannot be closed is named in a warning, and the others are closed."""
        for label, env in self._envs.items():
            try:
                env.close()
            except (Exception, SystemExit) as error:
                what = "'%s' could not be closed; processes or files of it may be left behind: %s"
                _log.warning(what, label, described(error))

    def __iter__(self) -> Iterator[tuple[str, TurnEnv]]:
        """(name, environment) in the order of the config."""
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
            return self._labelled(label, self._envs[label].tasks.find(task_id))
        label, _, own_id = task_id.partition(":")
        if label not in self._envs:
            raise UnknownName("environment of a task", label, self._envs, hint="write NAME:ID")
        return self._labelled(label, self._envs[label].tasks.find(own_id))

    def score(self, group: Group, step: int = 0) -> ScoredGroup:
        """Score a group by the rubric of its environment."""
        return self.rubrics[group.task.env_id].score_group(group, step)

    def score_demonstration(self, group: Group, examined: Collection[str]) -> ScoredGroup:
        """Score a group of demonstrations, which no examiner has seen.

        ``examined`` are the names of the facts that examiners record. If the run's rubric reads one of them it cannot
        score the group, and the environment's own rubric does. Raises ConfigError if the environment has none.
        """
        label = group.task.env_id
        rubric = self.rubrics[label]
        unread = rubric.readers.keys().isdisjoint(examined)
        return (rubric if unread else _own_rubric(self._envs[label])).score_group(group)

    def heldout(self, label: str, split: str, count: int) -> list[Task]:
        """The first ``count`` tasks of a split, or all of a smaller one."""
        return [self.task(label, split, index) for index in self.indices(label, split, count)]

    def indices(self, label: str, split: str, count: int) -> range:
        """The positions of the first ``count`` tasks of a split, or of all of a smaller one."""
        size = self._envs[label].tasks.size(split)
        return range(count if size is None else min(size, count))

    def task(self, label: str, split: str, index: int) -> Task:
        """The task at one position of a split."""
        return self._labelled(label, self._envs[label].tasks.task(split, index))

    def split(self, n: int) -> dict[str, int]:
        """How many of ``n`` tasks each environment gets, by their weights."""
        weights = [section.weight for section in self.sections.values()]
        return dict(zip(self.sections, shares(weights, n, seed=0, step=0), strict=True))

    def _labelled(self, label: str, task: Task) -> Task:
        own_id = task.id if len(self.sections) == 1 else f"{label}:{task.id}"
        return replace(task, env_id=label, id=own_id)

    def stream(self, *, per_step: int, seed: int, first: Mapping[str, int]) -> Callable[[int], list[Task]]:
        """A function from the number of a step, counted from 1, to the tasks of the step.

        The tasks depend on the number alone, so a resumed run neither skips nor repeats any. Every step has
        ``per_step`` tasks, shared among the environments by their weights. ``first`` says for each environment how many
        tasks of an endless source the warm start has used; training begins after them.
        """
        parts = tuple(self._streams(per_step, seed, first))
        weights = [self.sections[label].weight for label, _ in parts]

        def at(step: int) -> list[Task]:
            counts = shares(weights, per_step, seed=seed, step=step)
            return [
                self._labelled(label, task)
                for (label, stream), count in zip(parts, counts, strict=True)
                for task in stream.at(step)[:count]
            ]

        return at

    def supply(
        self, *, per_step: int, group_size: int, seed: int, first: Mapping[str, int], refilled: bool = False
    ) -> Supply:
        """What a curriculum chooses from; the arguments are those of ``stream`` and the fields of ``Supply``."""
        return Supply(
            in_order=lru_cache(maxsize=2)(self.stream(per_step=per_step, seed=seed, first=first)),
            pools=partial(self._pools, per_step, first),
            per_step=per_step,
            group_size=group_size,
            seed=seed,
            refilled=refilled,
        )

    @asynccontextmanager
    async def worlds(self, size: int) -> AsyncIterator[Worlds]:
        """The pools of environment instances that play episodes: at most ``size`` at once of each environment."""
        async with AsyncExitStack() as stack:
            if self._cluster is not None:
                stack.enter_context(self._cluster.connected())
            pools: dict[str, EnvPool | RayPool] = {
                label: await stack.enter_async_context(self._opened_pool(section, size))
                for label, section in self.sections.items()
            }
            async with EnvPools(pools) as worlds:  # closes all at the same time
                yield worlds

    def _opened_pool(self, section: EnvSection, size: int) -> EnvPool | RayPool:
        make_env, cluster = maker(section.id, **section.arguments), self._cluster
        if cluster is None:
            return EnvPool(make_env, size=size, isolation=section.isolation)
        return cluster.pool(make_env, size=size, isolation=section.isolation)

    def _pools(self, per_step: int, first: Mapping[str, int], most: int | None) -> list[TaskPool]:
        """The pool of each environment; see ``pool_of`` for what it raises."""
        if largest := self._largest(most):
            raise ConfigError(
                f"curriculum.pool = {most} has no effect: no split has more than {largest} tasks; leave it out"
            )
        return [self._pool(label, first.get(label, 0), most, per_step) for label in self.sections]

    def _largest(self, most: int | None) -> int:
        """The number of tasks of the largest split, where that is no more than ``most``; else 0."""
        sizes = [self._envs[label].tasks.size(section.split) for label, section in self.sections.items()]
        known = [size for size in sizes if size is not None]
        return max(known) if most is not None and len(known) == len(sizes) and max(known) <= most else 0

    def _pool(self, label: str, first: int, most: int | None, per_step: int) -> TaskPool:
        section = self.sections[label]
        if section.together > 1:
            raise ConfigError(
                f"env.together = {section.together} has no effect with a curriculum that picks single tasks; leave it "
                'out, or use curriculum.type = "order"'
            )
        size = self._envs[label].tasks.size(section.split)
        start = first if size is None else 0  # the warm start is over a part of a finite split, which is all there is
        return pool_of(
            label,
            section.weight,
            size,
            most,
            per_step=self._most_of(label, per_step),
            task=lambda index: self.task(label, section.split, start + index),
        )

    def _most_of(self, label: str, per_step: int) -> int:
        """How many tasks an environment can get of the ``per_step`` of a step."""
        whole = sum(section.weight for section in self.sections.values())
        return min(per_step, math.ceil(per_step * self.sections[label].weight / whole - 1e-9))

    def _streams(self, per_step: int, seed: int, first: Mapping[str, int]) -> Iterator[tuple[str, TaskStream]]:
        """The tasks of each environment, as many per step as it can ever get."""
        for label, section in self.sections.items():
            own_seed = seed if len(self.sections) == 1 else derive_seed(seed, label)
            yield (
                label,
                TaskStream(
                    self._envs[label].tasks,
                    section.split,
                    per_step=self._most_of(label, per_step),
                    seed=own_seed,
                    first=first.get(label, 0),
                    together=section.together,
                ),
            )


@contextmanager
def naming_key(key: str) -> Iterator[None]:
    """Raise a UserError of the block as a ConfigError that names ``key``, where the mistake is. MissingExtra passes."""
    try:
        yield
    except MissingExtra:  # it says what to install, which no key would explain better
        raise
    except UserError as error:
        said = str(error)
        if said.startswith(("tasks.", "tasks:")):  # the error of a task source, which names its own key
            raise ConfigError(f"{key.rpartition('.')[0]}.{said}") from error
        raise ConfigError(f"{key}: {said}") from error


def builder(section: EnvSection) -> Callable[[], TurnEnv]:
    """A function that makes the environment of a section; it can be pickled and sent to another process."""
    return partial(make, section.id, **section.arguments)


def accept(rubric: Rubric, label: str, *, allow_unsafe: bool) -> str:
    """Check that a rubric is safe; returns "" if it is, and the reason why not if ``allow_unsafe`` permits that.

    Raises ConfigError for an unsafe rubric, with an episode that shows the problem, and for an ``allow_unsafe`` that
    has no effect because the rubric is safe.
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
            f"{type(env).__name__} has a {type(rubric).__name__} as its rubric, not a turngate.Rubric; set env.rubric"
        )
    return rubric
