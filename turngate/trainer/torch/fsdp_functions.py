"""What ``learner.type = "fsdp"`` needs of torch beyond what other learners need, looked for before it is imported."""

from __future__ import annotations

from functools import reduce
from importlib import import_module

import torch

from turngate.errors import ConfigError

TESTED = "2.13"
NEEDED = (
    ("torch.distributed", "DistError"),
    ("torch.distributed.checkpoint", "FileSystemWriter"),
    ("torch.distributed.fsdp", "fully_shard"),
    ("torch.distributed.fsdp", "register_fsdp_forward_method"),
    ("torch.distributed.fsdp", "FSDPModule.set_gradient_divide_factor"),
    ("torch.distributed.fsdp", "FSDPModule.set_force_sum_reduction_for_comms"),
    ("torch.distributed.tensor", "distribute_tensor"),
    ("torch.nn.utils", "get_total_norm"),
)
"""Functions, and the modules that they are in."""


def check() -> None:
    """Raise ConfigError for a torch that lacks one of them."""
    missing = [f"{module}.{name}" for module, name in NEEDED if not _has(module, name)]
    if missing:
        raise ConfigError(
            f'learner.type "fsdp" needs {missing[0]}, which torch {torch.__version__} does not have; install '
            f'torch>={TESTED}, with which it is tested, or set learner.type = "torch" and start the run without '
            "torchrun"
        )


def _has(module: str, name: str) -> bool:
    try:
        reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError):
        return False
    return True
