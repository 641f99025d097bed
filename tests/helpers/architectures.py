"""Architectures of the model families, tiny and with random weights, each with the template of its family."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers

from tests.helpers import templates
from turngate.agents import tiny
from turngate.agents.architecture import attention_of

WINDOW = 24
"""Tokens that a sliding layer sees: fewer than the first prompt has."""


class Shape(NamedTuple):
    """The settings of one architecture beside the common ones, and the family of its chat template."""

    config: str
    template: str
    more: dict[str, Any]
    tied: bool = False


_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 24}
_LATENT = {
    **_MOE,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 4,
    "v_head_dim": 8,
    "head_dim": 4,
}
_LLAMA_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_CAPS = {"final_logit_softcapping": 2.0, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 8}
_LAYERS = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 128, "rope_theta": 150_000.0}
SHAPES = {
    "qwen2": Shape("Qwen2Config", "hermes", {"tie_word_embeddings": True}, tied=True),
    "qwen3": Shape("Qwen3Config", "qwen3", {"tie_word_embeddings": True}, tied=True),
    "qwen3_moe": Shape("Qwen3MoeConfig", "qwen_coder", {**_MOE, "num_experts": 4}),
    "llama3": Shape("LlamaConfig", "llama3", {"rope_parameters": _LLAMA_ROPE}),
    "mistral": Shape("MistralConfig", "mistral", {"sliding_window": WINDOW}),
    "gemma2": Shape("Gemma2Config", "gemma", {**_CAPS, **_LAYERS}, tied=True),
    "gemma3": Shape("Gemma3TextConfig", "gemma", _LAYERS, tied=True),
    "deepseek_v2": Shape("DeepseekV2Config", "deepseek", _LATENT),
    "deepseek_v3": Shape("DeepseekV3Config", "deepseek", {**_LATENT, "q_lora_rank": 16, "n_group": 2, "topk_group": 1}),
    "gpt_oss": Shape(
        "GptOssConfig",
        "harmony",
        {**_LAYERS, "num_local_experts": 4, "num_experts_per_tok": 2, "rope_parameters": _YARN},
    ),
}


def model(name: str, *, seed: int = 0) -> Any:
    """Two layers of width 32, with weights that are large enough for every part to show in the logits."""
    shape, tokenizer = SHAPES[name], templates.tokenizer(SHAPES[name].template)
    common = {
        "vocab_size": len(tokenizer) + 3,  # published models have more embeddings than tokens
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 1024,
        "initializer_range": 0.2,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }
    config = getattr(transformers, shape.config)(**{**common, **shape.more})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention_of(config))
    return made.eval()


def saved(name: str, folder: Path, dtype: torch.dtype = torch.bfloat16) -> Path:
    """A folder with such a model in the precision that published ones have, and its tokenizer."""
    tiny.save(model(name).to(dtype), templates.tokenizer(SHAPES[name].template), folder)
    return folder


@cache
def made(name: str) -> Any:
    """The model of that name, made once; nobody may change it."""
    return model(name)
