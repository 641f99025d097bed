"""Clusters of machines: their processes play environments, and compute for a learner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from turngate.cluster.placement import gpus_of_cluster, placed_together
from turngate.cluster.ray_connection import connected
from turngate.envs.pool.pool import EnvPool, MakeEnv
from turngate.envs.pool.ray_pool import RayPool
from turngate.errors import ConfigError
from turngate.parts import Part

if TYPE_CHECKING:
    from turngate.cluster.placement import Actor
    from turngate.config import Config


LEAST_CPUS = 0.01
"""Of a process in a group, of which Ray wants to know a resource."""


class ClusterPart(Part):
    """A cluster of machines. Its processes play the environments and, for a learner that has several, compute; the
    policy stays where the command runs."""

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "cluster"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.envs.pool",)

    @abstractmethod
    def connected(self) -> AbstractContextManager[None]:
        """Belong to the cluster in a block. Raises ConfigError where that is not possible."""

    @abstractmethod
    def pool(self, make_env: MakeEnv, *, size: int, isolation: Literal["thread", "process"]) -> EnvPool | RayPool:
        """At most ``size`` environments of a kind. Raises ConfigError, also when it is entered."""

    def learner(self, kind: Callable[[int, int], object]) -> AbstractContextManager[list[Actor]]:
        """Actors of Ray ``kind(rank, n)``, the n processes of a learner, which end with the block. Raises ConfigError,
        also when it is entered; a cluster that has no such actors does for any learner of several processes."""
        raise ConfigError(
            f'cluster.type "{self.type}" starts no processes for a learner; set learner.type = "torch", or use '
            'cluster.type = "ray"'
        )


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
    """Other resources that a process of environments needs, for instance {browser = 1}: it runs on nodes that have
    them."""
    learner_processes: int | None = Field(None, ge=1)
    """Number of processes of learner.type = "fsdp", each with a GPU where the cluster has any; left out: as many as
    GPUs, or one."""
    start_s: float = Field(120.0, gt=0)
    """Seconds within which the processes must have started, or one of them must be back after all were lost."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for processes that the learner does not have."""
        if self.learner_processes is not None and not config.learner.has_processes:
            raise ConfigError(
                f'cluster.learner_processes = {self.learner_processes} has no effect: learner.type "'
                f'{config.learner.type}" computes in the process of the run; leave it out, or set learner.type = "fsdp"'
            )

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

    def learner(self, kind: Callable[[int, int], object]) -> AbstractContextManager[list[Actor]]:
        gpus = gpus_of_cluster()
        resources = {"CPU": max(self.cpus, LEAST_CPUS), **({"GPU": 1.0} if gpus else {})}
        return placed_together(
            kind,
            self.learner_processes or gpus or 1,
            resources=resources,
            start_s=self.start_s,
            what="processes of the learner",
            advice="or lower cluster.learner_processes",
        )
