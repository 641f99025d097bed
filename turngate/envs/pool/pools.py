"""The environments of a run, one pool for each; a task is played in the pool of the environment that it names."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Self

from turngate.envs import registry
from turngate.envs.base import TurnEnv
from turngate.envs.pool.pool import EnvPool, LeasedEnv, MakeEnv
from turngate.envs.pool.ray_pool import ClusterEnv, RayPool
from turngate.envs.tasks import GivenTasks
from turngate.errors import ConfigError, UnknownName
from turngate.types import Task


class EnvPools:
    """One pool per environment of a run, by the environment's name in the run, which a task gives as its ``env_id``.

    A task waits only for an environment of its own kind. ``size`` is the number of environments in all pools together.
    Use it inside one event loop, and close it or use ``async with``.
    """

    def __init__(self, pools: Mapping[str, EnvPool | RayPool]) -> None:
        if not pools:
            raise ConfigError("a run needs at least one environment")
        self.pools = dict(pools)
        self.size = sum(pool.size for pool in self.pools.values())

    @property
    def env_time_s(self) -> float:
        """Seconds inside calls of all environments so far, which may exceed the wall time."""
        return sum(pool.env_time_s for pool in self.pools.values())

    def lease(self, task: Task) -> AbstractAsyncContextManager[LeasedEnv | ClusterEnv]:
        """Borrow an environment for ``task``; waits while all of its kind are in use. Raises UnknownName."""
        return self._of(task).lease(task)

    def free(self, task: Task) -> bool:
        """Whether ``lease`` would return at once. Raises UnknownName."""
        return self._of(task).free(task)

    async def close(self) -> None:
        """Close every pool, at the same time. Safe to repeat."""
        await asyncio.gather(*(pool.close() for pool in self.pools.values()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _of(self, task: Task) -> EnvPool | RayPool:
        if task.env_id not in self.pools:
            raise UnknownName(f"environment of task '{task.id}'", task.env_id, self.pools)
        return self.pools[task.env_id]


def maker(id: str, **kwargs: object) -> MakeEnv:
    """A function that builds the environments of a pool, like ``make(id, **kwargs)`` but without tasks of their own.

    Each ``reset`` hands them their task, so the task source is opened once, by the caller that chooses the tasks, and
    not by every environment. An environment whose class takes no argument ``tasks`` makes its own. The function can be
    sent to another process, also if the id is registered only in this one. Raises what ``make`` raises for the id.
    """
    entry = registry.find(id)
    if "tasks" in inspect.signature(registry.creator(entry)).parameters:
        kwargs = {name: value for name, value in kwargs.items() if name != "split"} | {"tasks": GivenTasks()}
    return partial(_made, entry, kwargs)


def _made(entry: registry.Registered, kwargs: Mapping[str, object]) -> TurnEnv:
    registry.creator(entry)  # first: in a process of its own, the module may register the id itself
    if entry.id not in registry.registered():
        registry.register(entry.id, entry.entry_point, kwargs=entry.kwargs, description=entry.description)
    return registry.make(entry.id, **kwargs)
