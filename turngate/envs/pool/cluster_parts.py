"""Clusters of machines whose processes play environments."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Literal

from pydantic import Field

from turngate.cluster.ray_connection import connected
from turngate.envs.pool.pool import EnvPool, MakeEnv
from turngate.envs.pool.ray_pool import RayPool
from turngate.parts import Part


class ClusterPart(Part):
    """A cluster of machines whose processes play the environments. The model stays where the command runs."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "cluster"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.envs.pool",)

    @abstractmethod
    def connected(self) -> AbstractContextManager[None]:
        """Belong to the cluster in a block. Raises ConfigError where that is not possible."""

    @abstractmethod
    def pool(self, make_env: MakeEnv, *, size: int, isolation: Literal["thread", "process"]) -> EnvPool | RayPool:
        """At most ``size`` environments of a kind. Raises ConfigError, also when it is entered."""


class RayCluster(ClusterPart):
    """A Ray cluster, which places the processes, and starts them again where they or their node die
    (pip install "turngate[ray]")."""

    type: Literal["ray"] = "ray"
    address: str = "auto"
    """Where its head is: HOST:PORT, ray://HOST:PORT of a client server, or auto for the cluster of this machine."""
    envs_per_process: int = Field(32, ge=1)
    """Number of environments in a process, at most; policy.concurrency says how many there are of each [[env]]."""
    cpus: float = Field(1.0, ge=0)
    """Number of CPUs that Ray reserves for a process."""
    resources: dict[str, float] = Field(default_factory=dict)
    """Other resources that a process needs, for instance {browser = 1}: it runs on nodes that have them."""
    start_s: float = Field(120.0, gt=0)
    """Seconds within which the processes must have started, or one of them must be back after all were lost."""

    def connected(self) -> AbstractContextManager[None]:
        return connected(self.address)

    def pool(self, make_env: MakeEnv, *, size: int, isolation: Literal["thread", "process"]) -> RayPool:
        return RayPool(
            make_env,
            size=size,
            isolation=isolation,
            per_process=self.envs_per_process,
            resources={"CPU": self.cpus, **self.resources},
            start_s=self.start_s,
        )
