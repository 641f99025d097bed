"""How much memory a run has needed at most so far."""

from __future__ import annotations

from pathlib import Path

from turngate.types import Metrics

_STATUS = Path("/proc/self/status")
_GB = 1e9


def peak_memory() -> Metrics:
    """The most that this process held at once since it began, in GB (10⁹ bytes).

    ``memory/process_gb``: resident memory as Linux counts it, left out where it does not. ``memory/device_gb``: what
    torch had allocated on the fullest GPU, left out without one. Processes of engines, environments and other ranks are
    not in either.
    """
    import torch

    metrics: Metrics = {}
    lines = _STATUS.read_text(encoding="utf-8").splitlines() if _STATUS.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            metrics["memory/process_gb"] = int(line.split()[1]) * 1024 / _GB
    if torch.cuda.is_available():
        devices = range(torch.cuda.device_count())
        metrics["memory/device_gb"] = max(torch.cuda.max_memory_allocated(device) for device in devices) / _GB
    return metrics
