"""Weights that are kept beside a model that moves on, such as those that the sampler has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from turngate.agents.policies.base import Weights
from turngate.parts import when_used

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


def copied(weights: Weights) -> dict[str, object]:
    """A copy of each weight, in CPU memory."""
    found = {}
    for name in weights:
        value = weights[name]
        assert isinstance(value, torch.Tensor)
        found[name] = value.detach().to("cpu", copy=True)
    return dict(found)


def save(path: Path, version: int, weights: Mapping[str, object]) -> None:
    """Write a version and its weights."""
    torch.save({"version": version, "weights": dict(weights)}, path)


def load(path: Path) -> tuple[int, dict[str, object]]:
    """Read what ``save`` wrote."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    return int(state["version"]), state["weights"]
