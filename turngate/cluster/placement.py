"""Processes of a Ray cluster that work together: placed as one group, and ended together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from turngate.cluster.ray_connection import cause_of, check_room
from turngate.errors import ConfigError

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.util.placement_group import PlacementGroup

    Actor: TypeAlias = ActorHandle[object]

SIGNS = "signs"
"""The concurrency group of calls that ask for a sign of life: they are answered while another call is at work."""


def gpus_of_cluster() -> int:
    """The number of GPUs of all nodes."""
    import ray

    there: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return int(there.get("GPU", 0))


@contextmanager
def placed_together(
    kind: Callable[[int, int], object],
    n: int,
    *,
    resources: Mapping[str, float],
    start_s: float,
    what: str,
    advice: str,
) -> Iterator[list[Actor]]:
    """Actors ``kind(rank, n)`` for each rank below ``n``, on one node where it has room, else on few; they end with the
    block. An actor that dies is not started again: the others depend on what it had.

    ``what``, ``advice``: what they are, and which settings ask for less, for messages. Raises ConfigError where the
    cluster has no room for them, or where they have not started within ``start_s`` seconds.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    check_room(resources, n, what=what, advice=advice)
    group = placement_group([dict(resources)] * n, strategy="PACK")
    actors: list[Actor] = []
    try:
        until = time.monotonic() + start_s
        is_there = group.wait(start_s)
        if is_there:
            actors += [_in_group(kind, rank, resources, group).remote(rank, n) for rank in range(n)]
            is_there = _have_started(actors, until - time.monotonic(), what)
        if not is_there:
            raise ConfigError(
                f"cluster: {n} {what} did not start within {start_s:g} s; others may use the cluster (`ray status` "
                "says so); free some of it, or raise cluster.start_s"
            )
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor, no_restart=True)
        remove_placement_group(group)


def _in_group(kind: Any, place: int, resources: Mapping[str, float], group: PlacementGroup) -> Any:
    """What makes the actor that takes this place of a group."""
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    make: Any = ray.remote  # whose annotation lacks groups
    return make(concurrency_groups={SIGNS: 1})(kind).options(
        num_cpus=resources.get("CPU", 0.0),
        num_gpus=resources.get("GPU", 0.0),
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place),
    )


def _have_started(actors: Sequence[Actor], within_s: float, what: str) -> bool:
    """Wait for the constructors. Raises ConfigError if one of them fails."""
    import ray

    try:
        ray.get([actor.__ray_ready__.remote() for actor in actors], timeout=max(within_s, 0.0))
    except ray.exceptions.GetTimeoutError:
        return False
    except ray.exceptions.RayError as error:
        raise ConfigError(f"cluster: one of the {what} did not start: {cause_of(error)}") from error
    return True
