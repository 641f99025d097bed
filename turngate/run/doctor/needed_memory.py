"""How much memory a run needs, estimated from the sizes of its model and its settings, before anything is loaded.

Weights, gradients, optimizer and caches are counted exactly. The memory that a pass keeps for its gradient is an
estimate: the numbers per token below were read off torch's allocator for dense models (tests/run/test_needed_memory.py
holds them to 15 %); mixtures of experts and capped scores are rougher. Learner and sampler never hold their activations
at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turngate.agents.architecture import SCORES, HubSettings, cache_shape
from turngate.agents.protocols import LanguageModel
from turngate.trainer.learner import Lora

FLOAT = 4
"""Bytes of a float32, in which weights, gradients and the optimizer's two averages are kept."""
CHUNK = 16_384
"""Most tokens of one prefill pass of the sampler."""
LOGITS = 4
"""Float32 numbers that each trained token needs for each entry of the vocabulary: logits, their distribution, its
entropy and the gradient. Only so many exist at once (``turngate.trainer.learner.logits_at_once``)."""
DRAWS = 5
"""The same for each token that is sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Sizes of a model. ``queries`` and ``keys``: numbers of a token's queries, and of its keys; ``inner``: those
    between the two halves of a layer's MLP, of all experts that a token goes through; ``cached``: what all layers keep
    of a token; ``scores``: kept numbers for each pair of tokens and head, 0 where attention keeps none."""

    weights: int
    layers: int
    width: int
    heads: int
    queries: int
    keys: int
    inner: int
    vocabulary: int
    cached: int
    scores: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """What a run does with a model. ``copies``: further frozen ones (reference, teacher); ``trained``: how many are
    updated, the policy among them; ``adapters``: how many weights the policy learns, if not all of its own;
    ``moment_bytes``: of the optimizer, for each of them; ``recomputes``: activations, in the backward pass;
    ``learner_bytes`` and ``sampler_bytes``: of a number in their passes; ``said``: most
    tokens of a pass that the policy wrote; ``logits``: most that exist at once."""

    trained: int
    copies: int
    learner_bytes: int
    sampler_bytes: int
    concurrency: int
    caches: int
    context: int
    pass_tokens: int
    said: int
    logits: int
    adapters: int | None = None
    moment_bytes: int = 2 * FLOAT
    recomputes: bool = False


def size_of(model: LanguageModel) -> ModelSize:
    """The sizes of a transformers causal language model, which may be without weights."""
    config, shape = model.config, cache_shape(model.config)
    heads = config.num_attention_heads
    head = getattr(config, "qk_head_dim", None) or getattr(config, "head_dim", None) or config.hidden_size // heads
    capped = 3 if getattr(config, SCORES, None) else 1
    return ModelSize(
        weights=sum(weight.numel() for weight in model.parameters()),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=heads,
        queries=heads * head,
        keys=(getattr(config, "num_key_value_heads", None) or heads) * head,
        inner=_inner(config),
        vocabulary=model.get_output_embeddings().weight.shape[0],
        cached=config.num_hidden_layers * shape.numbers,
        scores=capped if config._attn_implementation == "eager" else 0,
    )


def adapter_weights(model: LanguageModel, lora: Lora) -> int:
    """How many weights the adapters of ``model`` have, which may be without weights itself."""
    network: Any = model
    head = model.get_output_embeddings()
    sizes: dict[str, int] = {
        name: sum(part.weight.shape)
        for name, part in network.named_modules()
        if type(part).__name__ == "Linear" and part is not head
    }
    chosen = [
        size for name, size in sizes.items() if lora.targets == "all-linear" or name.rpartition(".")[2] in lora.targets
    ]
    return lora.rank * sum(chosen)


def needed_memory(size: ModelSize, use: MemoryUse) -> dict[str, int]:
    """Bytes by their purpose, in the order in which they are printed. Their sum, with the larger of the two passes
    alone, is the most that is needed at once (``most_at_once``)."""
    models = size.weights * use.trained
    learned = models if use.adapters is None else models - size.weights + use.adapters
    logits = min(size.vocabulary * use.said, use.logits)
    rounded = size.weights * use.learner_bytes if use.learner_bytes < FLOAT else 0
    return {
        "weights": FLOAT * (size.weights * (1 + use.copies) + max(models - size.weights, 0) + (use.adapters or 0)),
        "gradients": FLOAT * learned,
        "optimizer": use.moment_bytes * learned,
        "sampler's copy": use.sampler_bytes * size.weights,
        "key-value cache": use.sampler_bytes * size.cached * use.concurrency * use.caches * capacity(use.context),
        LEARNER_PASS: activations(size, use) + FLOAT * LOGITS * logits + rounded,
        SAMPLER_PASS: _sampling(size, use),
    }


LEARNER_PASS, SAMPLER_PASS = "learner's pass", "sampler's pass"


def most_at_once(needed: dict[str, int]) -> int:
    """The most bytes at once: learner and sampler compute one after the other."""
    return sum(needed.values()) - min(needed[LEARNER_PASS], needed[SAMPLER_PASS])


def activations(size: ModelSize, use: MemoryUse) -> int:
    """Bytes that one pass of the learner keeps for its gradient, without logits."""
    share = use.learner_bytes / FLOAT  # of what matrix products read and write; norms stay in float32
    heads = size.queries + size.keys
    layer = 6 * size.width + share * (4 * size.inner + 4 * heads) + size.scores * share * use.context * size.heads
    once = 2 * (size.width + size.inner) + (2 * use.context * size.heads if size.scores else 0)
    kept = layer + size.layers * size.width if use.recomputes else size.layers * layer
    return int(FLOAT * use.pass_tokens * (kept + once))


def capacity(context: int) -> int:
    """Columns of a cache row, which grow by doubling."""
    columns = 256
    while columns < context:
        columns *= 2
    return columns + 1


def _sampling(size: ModelSize, use: MemoryUse) -> int:
    tokens = min(CHUNK, use.concurrency * use.context)
    seen = use.context * size.heads if size.scores else 0
    hidden = use.sampler_bytes * tokens * (4 * size.width + 3 * size.inner + 2 * size.queries + seen)
    return hidden + FLOAT * DRAWS * use.concurrency * size.vocabulary


def _inner(config: HubSettings) -> int:
    """Numbers between the halves of an MLP; of a mixture, those of the experts that a token goes through."""
    dense: int = config.intermediate_size
    chosen = getattr(config, "num_experts_per_tok", None)
    if not chosen:
        return dense
    expert = getattr(config, "moe_intermediate_size", None) or dense
    inputs = config.hidden_size * 3 // 4  # each expert is handed its own copy of the token
    return max(dense, int((chosen + (getattr(config, "n_shared_experts", None) or 0)) * (expert + inputs)))
