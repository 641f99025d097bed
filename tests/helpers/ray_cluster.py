"""A real Ray cluster of several "machines" on this one: a raylet each, as Ray's own tests have them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}


@contextmanager
def ray_cluster(nodes: int, **head: int) -> Iterator[Any]:
    """A cluster of so many nodes with a CPU each; its ``address`` is that of the head, which is the first. ``head``:
    more arguments of that."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False, **head})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        yield cluster
    finally:
        cluster.shutdown()
