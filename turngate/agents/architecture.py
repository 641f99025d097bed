"""What a model's settings (``config.json``) say of its architecture, and whether it can be played and trained here.

Read without the weights and without torch, so that ``turngate doctor``, the checks before a run and the engine go by
the same facts.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

HubSettings: TypeAlias = Any
"""The config of a transformers model; its attributes differ by architecture."""
FULL, SLIDING = "full_attention", "sliding_attention"
SCORES = "attn_logit_softcapping"
"""The setting of Gemma 2's capped attention scores, which only transformers' attention "eager" computes."""


class CacheShape(NamedTuple):
    """The cache of one layer for one token: ``heads`` vectors of ``keys`` and as many of ``values`` numbers."""

    heads: int
    keys: int
    values: int

    @property
    def numbers(self) -> int:
        """All numbers of a token."""
        return self.heads * (self.keys + self.values)


def cache_shape(config: HubSettings) -> CacheShape:
    """The cache of a layer for one token. DeepSeek's latent attention keeps one compressed vector and one rotated key
    per token."""
    if getattr(config, "kv_lora_rank", None):
        return CacheShape(1, config.kv_lora_rank, config.qk_rope_head_dim)
    width: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return CacheShape(getattr(config, "num_key_value_heads", None) or config.num_attention_heads, width, width)


def layer_kinds(config: HubSettings) -> frozenset[str] | None:
    """The kinds of attention that layers choose from, each by a name of its own; None: all layers are of one kind."""
    kinds = getattr(config, "layer_types", None)
    return None if kinds is None else frozenset(kinds)


def window(config: HubSettings) -> int | None:
    """How many tokens, itself included, a token of a sliding layer sees; None: no layer slides."""
    kinds, size = layer_kinds(config), getattr(config, "sliding_window", None)
    return size if kinds is None or SLIDING in kinds else None


def logit_cap(config: HubSettings) -> float | None:
    """c, where the model's logits are c · tanh(z / c) of what its head computes (Gemma 2); None: they are z."""
    cap = getattr(config, "final_logit_softcapping", None)
    return None if cap is None else float(cap)


def attention_of(config: HubSettings) -> str | None:
    """The implementation of attention that transformers has to take; None: its own choice is right.

    Its choice for Gemma 2 leaves the cap of the scores out without a word.
    """
    return "eager" if getattr(config, SCORES, None) else None


def refusal(config: HubSettings) -> str:
    """Why a model with these settings cannot be trained, and what helps; "" if it can."""
    name = _name(config)
    if config.get_text_config() is not config:
        return f"{name} reads more than text; save its language model as a folder of its own and name that"
    if getattr(config, "is_encoder_decoder", False):
        return f"{name} has an encoder beside the decoder; name a causal language model"
    quantised = getattr(config, "quantization_config", None)
    if quantised:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised.quant_method
        return f"its weights are quantised ({method}), which cannot be trained; name a copy in bfloat16 or float32"
    return ""


def cache_refusal(config: HubSettings) -> str:
    """Why the local policy, which keeps keys and values, cannot play such a model, and what helps; "" if it can."""
    others = sorted((layer_kinds(config) or frozenset()) - {FULL, SLIDING})
    if getattr(config, "attention_chunk_size", None):
        others.append("chunked_attention")
    if not (others or getattr(config, "num_attention_heads", None)):
        others.append("attention-free")
    if not others:
        return ""
    known = f"{FULL} and {SLIDING}"
    return f"{_name(config)} has layers of the kind {', '.join(others)}, and {known} are played; name another model"


def _name(config: HubSettings) -> str:
    return ", ".join(getattr(config, "architectures", None) or ()) or str(config.model_type)
