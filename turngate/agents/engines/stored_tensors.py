"""Tensors in memory that this process and an engine's share: read by where each of them begins.

Both processes import this module, and the engine's has none of turngate's dependencies but torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import torch


class StoredPlace(TypedDict):
    """One tensor: its name, its shape and its first byte."""

    name: str
    shape: list[int]
    offset: int


def tensors_in(memory: mmap, places: Iterable[StoredPlace], dtype: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor for each of ``places``. The tensors are the memory itself."""
    import torch

    for place in places:
        flat = torch.frombuffer(
            memory, dtype=getattr(torch, dtype), count=math.prod(place["shape"]), offset=place["offset"]
        )
        yield place["name"], flat.view(place["shape"])
