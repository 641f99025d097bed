"""Environments in processes of a Ray cluster, which Ray places, and starts again when they or their node die."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import pickle
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Self

from turngate.cluster.ray_connection import cause_of, check_room
from turngate.envs.pool.node_envs import NodeEnvs
from turngate.envs.pool.pool import CALLS_PER_STEP, MARGIN_S, OPEN_DEADLINE_S, MakeEnv
from turngate.envs.pool.process import pickled
from turngate.errors import ConfigError, EnvError, RunError
from turngate.types import Action, Ending, Info, Observation, Task

NETWORK_S = 30.0
"""How long an answer may take beyond the deadline that its node enforces; then the node is taken for unreachable."""
CLOSE_S = 15.0
PING_S = 1.0
"""How long a process that failed is left alone before it is asked again whether it is there."""

_log = logging.getLogger(__name__)


class _Process:
    """A process of environments, as this side sees it. ``cause``: why it cannot be used now; empty where it can."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.leases, self.cause = actor, 0, ""


class ClusterEnv:
    """An environment on a node, borrowed from a ``RayPool``; make one call at a time."""

    def __init__(self, pool: RayPool, process: _Process, lease: int) -> None:
        self._pool, self._process, self._lease = pool, process, lease

    async def reset(
        self, task: Task | str | None = None, seed: int | None = None, tool_format: str = ""
    ) -> tuple[Observation, Info]:
        """As ``LeasedEnv.reset``."""
        result: tuple[Observation, Info] = await self._call("reset", task, seed, tool_format)
        return result

    async def step(self, action: Action | str) -> tuple[Observation, float, bool, bool, Info]:
        """As ``LeasedEnv.step``."""
        result: tuple[Observation, float, bool, bool, Info] = await self._call("step", action)
        return result

    async def finish(self, ending: Ending) -> tuple[float, Info]:
        """As ``LeasedEnv.finish``."""
        result: tuple[float, Info] = await self._call("finish", ending)
        return result

    async def snapshot(self) -> object:
        """As ``LeasedEnv.snapshot``."""
        return await self._call("snapshot")

    async def restore(self, snapshot: object) -> None:
        """As ``LeasedEnv.restore``."""
        await self._call("restore", snapshot)

    async def _call(self, method: str, *args: object) -> Any:
        return await self._pool.call(self._process, self._lease, method, args)


class RayPool:
    """As ``EnvPool``, with at most ``size`` environments in processes of up to ``per_process`` each, spread over nodes.

    What an environment does to itself is dealt with on its node, as in any pool. A process or node that dies, or does
    not answer, raises EnvError in every call of its leases: their episodes are broken, whatever the agent did. Ray
    starts it again, elsewhere if it must; until it answers, episodes are given to the others. If none answers for
    ``start_s``, ``lease`` raises RunError. Use it inside ``turngate.cluster.ray_connection.connected``, in one event
    loop, with ``async with``.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        *,
        size: int,
        isolation: Literal["thread", "process"] = "thread",
        per_process: int = 32,
        resources: Mapping[str, float] | None = None,
        start_s: float = 120.0,
    ) -> None:
        """``resources``: what Ray reserves for a process, ``CPU`` and others by name; by default a CPU."""
        self.size, self._start_s = size, start_s
        self._resources = {"CPU": 1.0} if resources is None else dict(resources)
        self._n, self._per_process = math.ceil(size / per_process), min(size, per_process)
        self._arguments = (pickled(make_env), self._per_process, isolation, os.getcwd())
        self._processes: list[_Process] = []
        self._numbers = itertools.count()
        self._waiting: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._declared_s = 0.0
        self.env_time_s = 0.0  # seconds inside calls, the way to the node and back included

    async def __aenter__(self) -> Self:
        """Start the processes, and build an environment in each once.

        Raises ConfigError where the cluster has no room for them, or a node lacks what an environment needs.
        """
        import ray

        advice = "lower policy.concurrency, or raise cluster.envs_per_process"
        check_room(self._resources, self._n, what="processes of environments", advice=advice)
        others = {name: amount for name, amount in self._resources.items() if name != "CPU"}
        node_envs = ray.remote(NodeEnvs).options(
            num_cpus=self._resources.get("CPU", 0.0),
            resources=others,
            max_restarts=-1,
            max_concurrency=2 * self._per_process + 8,
            scheduling_strategy="SPREAD",
        )
        self._processes = [_Process(node_envs.remote(*self._arguments)) for _ in range(self._n)]
        opening = asyncio.gather(*(_opened(process.actor) for process in self._processes))
        try:
            found = await asyncio.wait_for(opening, self._start_s)
        except TimeoutError:
            await self.close()
            raise ConfigError(
                f"cluster: {self._n} processes of environments did not start within {self._start_s:g} s; others may "
                "use the cluster (`ray status` says so); free some of it, or raise cluster.start_s"
            ) from None
        except BaseException as error:
            await self.close()
            if isinstance(error, ray.exceptions.RayError):
                raise ConfigError(f"cluster: a process of environments did not start: {cause_of(error)}") from None
            raise
        if problem := next((problem for _, problem in found if problem), ""):
            await self.close()
            raise ConfigError(f"cluster: {problem}")
        self._declared_s = max(declared_s for declared_s, _ in found)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @asynccontextmanager
    async def lease(self, task: Task | None = None) -> AsyncIterator[ClusterEnv]:
        """Borrow an environment; waits while all are in use, or no process answers. Raises RunError."""
        process = await self._chosen()
        number = next(self._numbers)
        try:
            yield ClusterEnv(self, process, number)
        finally:
            process.actor.release.remote(number)  # its answer does not matter: a process that is gone has no leases
            async with self._changed:
                process.leases -= 1
                self._changed.notify_all()

    def free(self, task: Task | None = None) -> bool:
        """Whether ``lease`` would return at once."""
        return any(self._has_room(process) for process in self._processes)

    async def call(self, process: _Process, lease: int, method: str, args: tuple[object, ...]) -> object:
        """Call a method of a leased environment. For ``ClusterEnv``."""
        if process.cause:
            raise EnvError(f"the process of the environment was lost before '{method}': {process.cause}")
        import ray

        bound_s = OPEN_DEADLINE_S if method == "reset" else CALLS_PER_STEP * self._declared_s + MARGIN_S
        began_s = time.perf_counter()
        try:
            asked = _answer(process.actor.call.remote(lease, method, args))
            result, error = pickle.loads(await asyncio.wait_for(asked, bound_s + NETWORK_S))
        except TimeoutError:
            self._lose(process, f"its node did not answer within {bound_s + NETWORK_S:g} s")
        except ray.exceptions.RayError as lost:
            self._lose(process, cause_of(lost))
        else:
            if error is not None:
                raise error
            return result
        finally:
            self.env_time_s += time.perf_counter() - began_s
        raise EnvError(f"the process of the environment was lost during '{method}': {process.cause}")

    async def close(self) -> None:
        """End every process, its environments first. Safe to repeat."""
        import ray

        for task in self._waiting:
            task.cancel()
        closing = [_answer(one.actor.close.remote()) for one in self._processes if not one.cause]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), CLOSE_S)
        for process in self._processes:
            ray.kill(process.actor, no_restart=True)
        self._processes = []

    async def _chosen(self) -> _Process:
        """The process with the fewest leases among those that answer and have room; takes a lease of it."""
        async with self._changed:
            while not (able := [process for process in self._processes if self._has_room(process)]):
                if any(not process.cause for process in self._processes):
                    await self._changed.wait()
                    continue
                try:
                    await asyncio.wait_for(self._changed.wait(), self._start_s)
                except TimeoutError:
                    causes = "; ".join(sorted({process.cause for process in self._processes})) or "the pool is closed"
                    raise RunError(
                        f"no process of environments came back within {self._start_s:g} s: {causes}"
                    ) from None
            chosen = min(able, key=lambda process: process.leases)
            chosen.leases += 1
            return chosen

    def _has_room(self, process: _Process) -> bool:
        return not process.cause and process.leases < self._per_process

    def _lose(self, process: _Process, cause: str) -> None:
        """Give a process no more episodes until it answers again."""
        if process.cause:
            return
        process.cause = cause
        _log.warning("a process of environments was lost, with %d episodes: %s", process.leases, cause)
        waiting = asyncio.create_task(self._wait_for(process))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

    async def _wait_for(self, process: _Process) -> None:
        import ray

        while True:
            await asyncio.sleep(PING_S)
            with suppress(ray.exceptions.RayError, TimeoutError):
                await asyncio.wait_for(_answer(process.actor.ping.remote()), NETWORK_S)
                break
        async with self._changed:
            process.cause = ""
            self._changed.notify_all()


async def _opened(actor: Any) -> tuple[float, str]:
    """What ``NodeEnvs.open`` returns. A process that dies meanwhile is started again by Ray, and asked again."""
    import ray

    while True:
        with suppress(ray.exceptions.ActorUnavailableError):
            found: tuple[float, str] = await _answer(actor.open.remote())
            return found
        await asyncio.sleep(PING_S)


async def _answer(reference: Any) -> Any:
    """What a remote call returns."""
    return await reference
