"""The environments of one process of a cluster: a pool, whose calls come from another machine."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from contextlib import AsyncExitStack
from typing import Literal

from turngate.envs.base import TurnEnv
from turngate.envs.pool.pool import EnvPool, LeasedEnv
from turngate.envs.pool.process import as_env_error
from turngate.errors import EnvError


class NodeEnvs:
    """An ``EnvPool`` whose leases have numbers. The class of an actor, so that each of its methods is a remote call.

    Deadlines, hangs and crashes of environments are dealt with here, by the pool. Who calls learns of them by the same
    errors, and of the end of this process by Ray's. A process that was started again knows no lease of the one before.
    """

    def __init__(self, make_env: bytes, size: int, isolation: Literal["thread", "process"], folder: str) -> None:
        """``make_env``: a pickled function without arguments. ``folder``: where relative paths begin."""
        self._make, self._size, self._isolation, self._folder = make_env, size, isolation, folder
        self._pool: EnvPool | None = None
        self._leases: dict[int, tuple[AsyncExitStack, LeasedEnv]] = {}

    async def open(self) -> tuple[float, str]:
        """Build an environment and close it again, so that what is missing on this node is known before any episode.

        Returns the deadline that it declares, in seconds, and what is wrong, as text that names this node; empty if
        nothing is.
        """
        try:
            return await asyncio.to_thread(self._try), ""
        except BaseException as error:
            return 0.0, f"node {socket.gethostname()}: {as_env_error(error, 'construction')}"

    async def ping(self) -> None:
        """Answer, as a sign of life."""

    async def call(self, lease: int, method: str, args: tuple[object, ...]) -> bytes:
        """Call a method of a leased environment; ``reset`` begins the lease. The pickled result and error."""
        try:
            if method == "reset" and lease not in self._leases:
                await self._begin(lease)
            if lease not in self._leases:
                raise EnvError(f"the process of the environment was started again before '{method}'")
            return pickle.dumps((await getattr(self._leases[lease][1], method)(*args), None))
        except Exception as error:
            return pickle.dumps((None, as_env_error(error, method, portable=True)))

    async def release(self, lease: int) -> None:
        """Give an environment back."""
        stack, _ = self._leases.pop(lease, (None, None))
        if stack is not None:
            await stack.aclose()

    async def close(self) -> None:
        """Close every environment."""
        if self._pool is not None:
            await self._pool.close()

    async def _begin(self, lease: int) -> None:
        if self._pool is None:
            self._enter()
            self._pool = EnvPool(pickle.loads(self._make), size=self._size, isolation=self._isolation)
        stack = AsyncExitStack()
        self._leases[lease] = stack, await stack.enter_async_context(self._pool.lease())

    def _try(self) -> float:
        self._enter()
        env: TurnEnv = pickle.loads(self._make)()
        deadline_s = env.turn_spec.deadline_s
        env.close()
        return deadline_s

    def _enter(self) -> None:
        try:
            os.chdir(self._folder)
        except OSError as error:
            raise EnvError(
                f"cannot enter '{self._folder}', where the run was started: {error.strerror}; the nodes of a cluster "
                "must share that folder"
            ) from error
