"""Weights in memory that this process and an engine's share: written by one, read by the other, never on a disk.

The memory has no name, so nothing is left of it when both processes are gone, however they ended. It keeps what was
written last, so an engine that is started again finds the weights there.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turngate.agents.engines.stored_tensors import StoredPlace
from turngate.agents.policies.base import AdaptedWeights, Weights
from turngate.errors import PolicyError
from turngate.parts import when_used

torch = when_used("torch")
sums = when_used("turngate.agents.engines.weight_sums")
_ALIGNED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    shape: tuple[int, ...]
    offset: int
    count: int


class SharedWeights:
    """Room for tensors like ``weights``, in the precision ``dtype`` ("float32" or "bfloat16"); holds a copy of them.

    ``fd``: the memory, for the engine's process. ``fingerprint``: of its content (``engines.weight_sums``).
    """

    def __init__(self, weights: Weights, dtype: str) -> None:
        self.dtype = dtype
        self._dtype = getattr(torch, dtype)
        tensors: Mapping[str, Any] = weights
        self._places, end = dict[str, _Place](), 0
        for name, tensor in tensors.items():
            count = int(tensor.numel())
            self._places[name] = _Place(shape=tuple(tensor.shape), offset=end, count=count)
            end += -(-count * self._dtype.itemsize // _ALIGNED) * _ALIGNED
        self.fd = os.memfd_create("turngate-weights")
        os.ftruncate(self.fd, end)
        self._memory = mmap.mmap(self.fd, end)
        self.fingerprint: list[int] = []
        self.write(weights)

    @property
    def manifest(self) -> list[StoredPlace]:
        """Where every tensor is, as the engine's process is told."""
        return [StoredPlace(name=name, shape=list(at.shape), offset=at.offset) for name, at in self._places.items()]

    def write(self, weights: Weights) -> None:
        """Take new values, rounded to the precision. Raises PolicyError for other names or shapes than at first."""
        new: Mapping[str, Any] = weights
        if self._places.keys() != new.keys():
            raise PolicyError(f"weights do not fit the engine's: {sorted(self._places.keys() ^ new.keys())[:3]} differ")
        for name, place in self._places.items():
            tensor = new[name]  # once: an adapter may be merged into it at this moment
            if tuple(tensor.shape) != place.shape:  # copy_ would broadcast
                raise PolicyError(
                    f"weights do not fit the engine's: '{name}' has shape {tuple(tensor.shape)}, there it has "
                    f"{place.shape}"
                )
            self._view(name).copy_(tensor.detach())
        self.fingerprint = sums.fingerprint(map(self._view, self._places), self._dtype)

    def clear(self) -> None:
        """Make everything zero."""
        self.write({name: torch.zeros(place.shape) for name, place in self._places.items()})

    def close(self) -> None:
        """Give the memory back; an engine that still runs keeps its part."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _view(self, name: str) -> Any:
        place = self._places[name]
        flat = torch.frombuffer(self._memory, dtype=self._dtype, count=place.count, offset=place.offset)
        return flat.view(place.shape)


class SharedModel:
    """The model as it is sent to an engine: ``weights`` and, where the engine adds these itself, ``adapters``."""

    def __init__(self, weights: SharedWeights) -> None:
        self.weights = weights
        self.adapters: SharedWeights | None = None
        self._base: Weights | None = None

    @property
    def fds(self) -> list[int]:
        """The memories, for the engine's process."""
        return [part.fd for part in (self.weights, self.adapters) if part is not None]

    def take_apart(self, weights: AdaptedWeights[object]) -> None:
        """From here on keep adapters apart: these, and the weights that they are added to."""
        self.adapters = SharedWeights(weights.adapters, self.weights.dtype)
        self.write(weights)

    def write(self, weights: Weights) -> bool:
        """Take new values; returns whether more than the adapters changed. Raises PolicyError as ``SharedWeights``.

        Weights without adapters, where there were some, are those of a whole model: its adapters are zero.
        """
        if self.adapters is None:
            self.weights.write(weights)
            return True
        base = weights
        if isinstance(weights, AdaptedWeights):
            base = weights.base
            self.adapters.write(weights.adapters)
        else:
            self.adapters.clear()
        if base is self._base:
            return False
        self.weights.write(base)
        self._base = base if isinstance(weights, AdaptedWeights) else None
        return True

    def close(self) -> None:
        """Give the memory back."""
        for part in (self.weights, self.adapters):
            if part is not None:
                part.close()
