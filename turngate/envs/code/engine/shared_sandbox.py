"""One bench for all environments of a process with the same settings: a back end and its helper process serve many
episodes. It is closed with the last environment that uses it."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from turngate.envs.code.grading.grading_sandbox import Bench
from turngate.errors import ConfigError
from turngate.sandbox import ResourceLimits


@dataclass(slots=True, eq=False)
class _Shared:
    bench: Bench
    users: int = 0


_lock = threading.Lock()
_shared: dict[Hashable, _Shared] = {}


class Lease:
    """The right to use a bench, until ``close``."""

    def __init__(self, key: Hashable, shared: _Shared) -> None:
        self._key, self._shared, self._closed = key, shared, False

    @property
    def bench(self) -> Bench:
        """The bench."""
        return self._shared.bench

    def close(self) -> None:
        """Release it. Safe to repeat."""
        with _lock:
            if self._closed:
                return
            self._closed = True
            self._shared.users -= 1
            if self._shared.users:
                return
            del _shared[self._key]
        self._shared.bench.close()


def lease(backend: Literal["bubblewrap", "docker"], deadline_s: float, sandbox: Mapping[str, object]) -> Lease:
    """The bench of this process for these settings; made if there is none. Raises what Bench raises."""
    key = (backend, deadline_s, repr(sorted(sandbox.items())))
    bounds: dict[str, Any] = {item.name: sandbox[item.name] for item in fields(ResourceLimits) if item.name in sandbox}
    settings = {name: value for name, value in sandbox.items() if name not in bounds}
    with _lock:
        if key not in _shared:
            _shared[key] = _Shared(_bench(backend, deadline_s, ResourceLimits(**bounds), settings))
        _shared[key].users += 1
        return Lease(key, _shared[key])


def _bench(
    backend: Literal["bubblewrap", "docker"], deadline_s: float, limits: ResourceLimits, settings: Mapping[str, object]
) -> Bench:
    try:
        return Bench(backend, deadline_s=deadline_s, limits=limits, **settings)
    except TypeError as error:
        raise ConfigError(f"sandbox has a setting that '{backend}' does not take, or lacks one: {error}") from error
