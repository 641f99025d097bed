"""The training loop in two forms: step after step, and with rollouts one step ahead of the learner.

``InTurn`` plays a step, learns from it and publishes, as ``train_step`` reads. ``Ahead`` plays the next step while the
learner still updates on this one, in a thread of its own (torch lets go of Python's lock while it computes):

===========  ================  ========================  ================
the loop     play 1            play 2       │  publish   play 3       │  …
the thread                     update on 1  │  version 1  update on 2  │  …
===========  ================  ========================  ================

So step 1 is on-policy, and every later one was sampled by weights one update older than those that learn from it: its
age is 1 and never more. Everything meets at one fixed point: step s + 1 is played between the publishing of versions s
− 1 and s, whichever of the two halves takes longer. So a policy that is reproducible bit for bit makes the run
reproducible too. Guide and curriculum see the results of a step before the next one is planned, as they do without it.

A checkpoint of step s holds the episodes of step s + 1, because they are part of the state: a run that goes on learns
from these, and does not play them again with other weights.
"""

from __future__ import annotations

import asyncio
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from turngate.errors import ConfigError, RunError, StoreError
from turngate.trainer.checkpoint import Stateful
from turngate.trainer.run import Run
from turngate.trainer.step import Collected, collect, finish, train_step, update
from turngate.trainer.torch import plain_pickle
from turngate.types import Metrics, Task

T = TypeVar("T")
U = TypeVar("U")


class Training(ABC):
    """The steps of a run, one after the other: call ``step`` with 1, 2, …, or from where a checkpoint was loaded."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @abstractmethod
    async def step(self, step: int) -> Metrics:
        """Train step number ``step``; its weights are published and its episodes recorded. Returns its metrics."""

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """What a checkpoint saves besides the learner: the state of the run, and that of the loop itself."""
        return self._run.checkpointed

    def _tasks(self, step: int) -> list[Task]:
        assert self._run.curriculum is not None, "a run that trains has one"
        return self._run.curriculum.pick(step)


class InTurn(Training):
    """Each step is played with the weights of the one before."""

    async def step(self, step: int) -> Metrics:
        return await train_step(self._run, self._tasks(step), step)


class Ahead(Training):
    """Each step is played while the one before is learned from. ``last``: after this one no step is played."""

    def __init__(self, run: Run, *, last: int) -> None:
        super().__init__(run)
        self._last = last
        self._waiting: Collected | None = None  # played, not learned from yet
        self._age = 0  # updates since the weights that played it

    async def step(self, step: int) -> Metrics:
        """See ``Training``; ``policy/age``: by how many updates the weights that played were older than the learner's.

        If playing the next step fails, so does this one: a run that goes on plays both again.
        """
        now, age = self._waiting, self._age
        if now is None:
            now, age = await self._collect(step), 0
        if now.step != step:
            raise RunError(f"step {now.step} was played and step {step} is to be trained; go on with step {now.step}")
        further = self._collect(step + 1) if step < self._last else _none()
        updated, self._waiting = await run_beside(partial(update, self._run, now), further)
        self._age = int(updated.moved)
        return await finish(self._run, now, updated) | {"policy/age": float(age)}

    @property
    def checkpointed(self) -> Mapping[str, Stateful]:
        """See ``Training``; with the episodes that were played ahead."""
        return {**self._run.checkpointed, "ahead": self}

    async def _collect(self, step: int) -> Collected:
        return await collect(self._run, self._tasks(step), step)

    def save(self, path: Path) -> None:
        """Write what was played ahead, which holds whatever tasks and environments put into episodes.

        Raises ConfigError for something among it that is no plain data (see ``plain_pickle``).
        """
        try:
            state = plain_pickle.dumps((self._waiting, self._age))
        except pickle.PickleError as error:
            raise ConfigError(
                f"train.ahead: the episodes that were played ahead cannot be saved: {error}; let tasks, evidence and "
                "auxiliary losses hold plain data, or set train.ahead = 0"
            ) from error
        path.write_bytes(state)

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises StoreError for a file that holds anything else; nothing in it is called."""
        try:
            self._waiting, self._age = plain_pickle.loads(path.read_bytes())
        except (pickle.PickleError, EOFError, ValueError, TypeError) as error:
            raise StoreError(f"{path} does not hold episodes that were played ahead: {error}") from error


def training_of(run: Run, *, ahead: int, last: int) -> Training:
    """The loop of a run of ``last`` steps that plays ``ahead`` steps ahead: 0 or 1."""
    return Ahead(run, last=last) if ahead else InTurn(run)


async def run_beside(work: Callable[[], T], other: Coroutine[object, object, U]) -> tuple[T, U]:
    """The results of ``work``, called in a thread, and of the coroutine ``other``, which runs meanwhile.

    Where one fails the other is ended before the error is raised: ``other`` is cancelled, and ``work``, which nothing
    can interrupt, is waited for. So nothing changes weights any more when this returns or raises.
    """
    try:
        async with asyncio.TaskGroup() as both:
            worked = both.create_task(_in_thread(work))
            done = both.create_task(other)
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__
    return worked.result(), done.result()


async def _in_thread(work: Callable[[], T]) -> T:
    thread = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        await asyncio.wait([thread])
        thread.exception()  # read it, or asyncio warns; the cancellation itself is raised
        raise


async def _none() -> None:
    """In place of the step after the last one."""
