"""Which of a model's weights a learner trains, saves and publishes: here all of them, in ``lora.py`` adapters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from turngate.agents.protocols import LanguageModel
from turngate.errors import StoreError


class TrainedWeights:
    """Every weight of ``model`` that wants a gradient."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def published(self) -> Mapping[str, torch.Tensor]:
        """The weights by name, as the sampler knows them, without a copy: the next update changes them."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def state(self) -> dict[str, object]:
        """What a checkpoint holds of them."""
        return {"model": dict(self.published())}

    def load(self, state: Mapping[str, object], path: Path) -> None:
        """Read what ``state`` gave. Raises StoreError for the state of another model, and for one of adapters."""
        self.copy_in(whole_model(state, path), dict(self.model.named_parameters()), path)

    @staticmethod
    def copy_in(saved: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], path: Path) -> None:
        """Copy ``saved`` into ``own``. Raises StoreError where names or shapes differ."""
        refuse_other(saved, own, path)
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(saved[name])


def whole_model(state: Mapping[str, object], path: Path) -> Mapping[str, torch.Tensor]:
    """All weights of a saved state. Raises StoreError for one of adapters."""
    if "model" not in state:
        raise StoreError(f"'{path}' holds adapters; set learner.lora, with which it was saved")
    weights: Any = state["model"]
    return dict(weights)


def refuse_other(saved: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raise StoreError where names or shapes of saved weights are not those of ``own``."""
    if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in saved.items()}:
        raise StoreError(f"'{path}' holds the weights of another model: names or shapes differ")
