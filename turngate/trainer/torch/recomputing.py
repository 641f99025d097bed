"""Gradient checkpointing: of each layer only its input is kept, and the rest is computed again for the gradient."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError
from turngate.trainer.torch.tree_attention import attention_named


def recompute_activations(model: LanguageModel) -> None:
    """Keep the activations of no layer of ``model`` that a gradient needs.

    A layer is computed again with the attention that it had, that of a tree among them. transformers does so for layers
    in training mode; the modules inside a layer stay in evaluation mode, so dropout is off. Raises ConfigError for a
    model that cannot do it.
    """

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), attention_named(model, model.config._attn_implementation)

    network: Any = model
    try:
        network.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": contexts})
    except (AttributeError, ValueError) as error:
        raise ConfigError(f"learner.checkpoint_activations does not fit the model: {error}; leave it out") from error
    for module in network.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
