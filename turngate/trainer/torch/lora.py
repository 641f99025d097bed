"""LoRA: the weights stay as they are, and beside each linear layer a product of two thin matrices is learned.

    W x + (alpha / rank) · B (A x);    A [rank, in] is random and B [out, rank] zero, so training begins at the model

Source: https://arxiv.org/abs/2106.09685; the layers are those of ``peft``. The adapters are put into the model itself,
so it is called as before; only the names of its parameters change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from turngate.agents.policies.base import AdaptedWeights
from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError, StoreError, UnknownName
from turngate.parts import when_used
from turngate.trainer.learner import Lora
from turngate.trainer.torch.passes import Passes
from turngate.trainer.torch.trained_weights import TrainedWeights
from turngate.types import Batch, FloatArray, derive_seed

peft = when_used("peft")
layers = when_used("peft.tuners.lora")
ADAPTER = "default"
SAMPLED = 64  # weights of each matrix by which a base model is recognised


class TrainedAdapters(TrainedWeights):
    """Adapters in ``model``: only they are trained and saved; published weights have them added."""

    def __init__(self, model: LanguageModel, lora: Lora) -> None:
        add_adapters(model, lora)
        super().__init__(model)
        self._published, self._base = MergedWeights(model), base_mark(model)

    def published(self) -> Mapping[str, torch.Tensor]:
        return self._published

    def state(self) -> dict[str, object]:
        """The adapters, and the mark by which their base model is recognised."""
        return {"adapters": {k: w.detach() for k, w in adapter_weights(self.model).items()}, "base": self._base}

    def load(self, state: Mapping[str, object], path: Path) -> None:
        """Raises StoreError for adapters of another shape or another model, and for a state without adapters."""
        if "adapters" not in state:
            raise StoreError(f"'{path}' was saved without adapters; leave out learner.lora, with which it was not made")
        if state["base"] != self._base:
            raise StoreError(f"'{path}' holds adapters of another model than the one that was loaded")
        saved: Any = state["adapters"]
        self.copy_in(saved, adapter_weights(self.model), path)


class WithoutAdapters:
    """Measures batches under the model that adapters are trained for, in the same memory (see ``Measuring``)."""

    def __init__(self, model: LanguageModel, passes: Passes) -> None:
        self._model, self._passes = model, passes

    def logprobs(self, batch: Batch, *, whole: bool = False) -> FloatArray:
        with without_adapters(self._model):
            return self._passes.logprobs(batch, whole=whole)

    def entropies(self, batch: Batch) -> FloatArray:
        with without_adapters(self._model):
            return self._passes.entropies(batch)


def add_adapters(model: LanguageModel, lora: Lora) -> None:
    """Put adapters into ``model``, in place; from then on its other weights need no gradient.

    A depends on the shape of the model alone. Raises ConfigError as ``check_targets`` does, and for layers that cannot
    be adapted.
    """
    check_targets(model, lora)
    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = peft.LoraConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM")
    network: Any = model
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(0, "lora"))
        try:
            peft.inject_adapter_in_model(config, network, ADAPTER)
        except ValueError as error:
            problem = str(error).partition("\n")[0]
            raise ConfigError(f"learner.lora.targets {targets!r} does not fit the model: {problem}") from error


def check_targets(model: LanguageModel, lora: Lora) -> None:
    """Raise ConfigError for a target that the model does not have, or that is its head or its embedding."""
    network: Any = model
    ends = model.get_output_embeddings(), network.get_input_embeddings()
    names = {name: module for name, module in network.named_modules() if not list(module.children())}
    for target in () if isinstance(lora.targets, str) else lora.targets:
        found = [module for name, module in names.items() if f".{name}".endswith(f".{target}")]
        if not found:
            linear = {name.rpartition(".")[2] for name, one in names.items() if isinstance(one, torch.nn.Linear)}
            raise ConfigError(str(UnknownName("layer in learner.lora.targets", target, linear)))
        if any(module is end for module in found for end in ends):
            raise ConfigError(
                f"'{target}' in learner.lora.targets is the head or the embedding of the model, which cannot be "
                'adapted; name layers between them, or "all-linear"'
            )


def adapter_weights(model: LanguageModel) -> dict[str, torch.Tensor]:
    """The adapters' parameters, under the names that they have in the model."""
    return {name: weight for name, weight in model.named_parameters() if ".lora_" in name}


class MergedWeights(AdaptedWeights[torch.Tensor]):
    """The weights with the adapters added, W + (alpha / rank) · B A, under the names that they had without adapters.

    A merged matrix is computed when it is read and not cached, so there is never a second model in memory. The next
    update changes the values.
    """

    def __init__(self, model: LanguageModel) -> None:
        network: Any = model
        adapted = {name: layer for name, layer in network.named_modules() if isinstance(layer, layers.LoraLayer)}
        self._adapted = adapted
        self._weights: dict[str, tuple[torch.Tensor, Any]] = {}
        for name, weight in model.named_parameters():
            owner, at, own = name.partition(".base_layer.")
            if ".lora_" not in name:
                plain = f"{owner}.{own}" if at else name
                self._weights[plain] = (weight, adapted[owner] if at and own == "weight" else None)
        self._base = {name: weight.detach() for name, (weight, _) in self._weights.items()}

    @property
    def base(self) -> Mapping[str, torch.Tensor]:
        return self._base

    @property
    def adapters(self) -> Mapping[str, torch.Tensor]:
        """See ``AdaptedWeights``; a copy of every B."""
        found = dict[str, torch.Tensor]()
        for name, layer in self._adapted.items():
            found[f"{name}.lora_A.weight"] = layer.lora_A[ADAPTER].weight.detach()
            found[f"{name}.lora_B.weight"] = layer.lora_B[ADAPTER].weight.detach() * layer.scaling[ADAPTER]
        return found

    def __getitem__(self, name: str) -> torch.Tensor:
        weight, layer = self._weights[name]
        with torch.no_grad():
            return weight.detach() if layer is None else weight + layer.get_delta_weight(ADAPTER).to(weight.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._weights[name][0].shape)


@contextmanager
def without_adapters(model: LanguageModel) -> Iterator[None]:
    """Inside, ``model`` computes what it does without its adapters."""
    network: Any = model
    adapted = [layer for layer in network.modules() if isinstance(layer, layers.LoraLayer)]
    for layer in adapted:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in adapted:
            layer.enable_adapters(True)


def base_mark(model: LanguageModel) -> str:
    """A hash of some of the weights that adapters are added to: tells one base model from another."""
    found = hashlib.sha256()
    for name, weight in model.named_parameters():
        if ".lora_" not in name:
            some = weight.detach().flatten()[:: max(1, weight.numel() // SAMPLED)]
            found.update(f"{name} {tuple(weight.shape)}".encode() + some.float().cpu().numpy().tobytes())
    return found.hexdigest()


def write_adapter(model: LanguageModel, folder: Path, *, base: str) -> None:
    """Write the adapters as ``peft.PeftModel.from_pretrained`` and inference engines read them.

    ``base`` is the name or folder of the model that they belong to.
    """
    network: Any = model
    folder.mkdir(parents=True, exist_ok=True)
    config = network.peft_config[ADAPTER].to_dict() | {"base_model_name_or_path": base, "inference_mode": True}
    config["target_modules"] = sorted(config["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, default=str))
    own = {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": weight.detach().cpu().contiguous()
        for name, weight in adapter_weights(model).items()
    }
    save_file(own, folder / "adapter_model.safetensors")
