"""Adapters (LoRA) in a vLLM engine: put there from shared memory, and read back. Runs in the engine's process.

vLLM reads adapters from a folder when a request names some that it does not have. Here they are there before that: they
are given to vLLM's own manager of adapters as tensors, under a number that is used once. vLLM keeps its prefix cache by
the name of the adapters, so keys and values of earlier adapters are never taken for theirs.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from typing import Any

from turngate.agents.engines.stored_tensors import StoredPlace, tensors_in

LORA_PATH = "shared memory"  # vLLM wants a path, and fails at it if the adapters are not there


def install(worker: object, memory_fd: int, places: list[StoredPlace], dtype: str, number: int) -> None:
    """Have the worker compute with the adapters in the memory, and with no others, for requests that name ``number``.

    Raises ValueError if vLLM has no layer for some of them.
    """
    from vllm.lora.lora_model import LoRAModel
    from vllm.lora.peft_helper import PEFTHelper

    manager = _manager(worker)
    renamed = getattr(manager.model, "hf_to_vllm_mapper", None)
    memory = mmap.mmap(memory_fd, os.fstat(memory_fd).st_size)
    tensors = {name: tensor.clone() for name, tensor in tensors_in(memory, places, dtype)}
    rank = max(tensor.shape[0] for name, tensor in tensors.items() if name.endswith(".lora_A.weight"))
    adapters = LoRAModel.from_lora_tensors(
        number,
        tensors,
        PEFTHelper(r=rank, lora_alpha=rank, target_modules=[]),  # the scale is in B already
        device="cpu",
        dtype=manager.lora_config.lora_dtype,
        weights_mapper=None if renamed is None else renamed.get_rename_mapper(),
    )
    refuse_unserved(worker, adapters.loras)
    manager.remove_all_adapters()
    manager.add_adapter(adapters)
    manager.activate_adapter(number)


def refuse_unserved(worker: object, layers: Iterable[str]) -> None:
    """Raise ValueError for adapters of layers that vLLM would ignore, because it does not adapt them."""
    manager = _manager(worker)
    served = set(manager.modules).union(*manager.packed_modules.values())
    missing = sorted(set(layers) - served)
    if missing:
        raise ValueError(
            f"vLLM cannot add adapters to '{missing[0]}' ({len(missing)} such layers); leave it out of "
            'learner.lora.targets, or set policy.adapters = "merged"'
        )


def held_adapters(worker: object, dtype: str) -> list[int]:
    """The fingerprint of the adapters that the worker computes with, in the precision ``dtype``."""
    import torch

    from turngate.agents.engines.weight_sums import fingerprint

    return fingerprint(_slots(_manager(worker)), getattr(torch, dtype))


def _manager(worker: Any) -> Any:
    """vLLM's manager of adapters, which its model holds."""
    return worker.model_runner.get_model().lora_manager


def _slots(manager: Any) -> Iterator[Any]:
    """The matrices of all adapted layers; their unused parts are zero, which a fingerprint does not count."""
    for layer in manager.modules.values():
        for stacked in (layer.lora_a_stacked, layer.lora_b_stacked):
            yield from [stacked] if hasattr(stacked, "shape") else stacked
