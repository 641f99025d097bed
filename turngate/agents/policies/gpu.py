"""Settings of torch for models that compute on a GPU."""

from __future__ import annotations

import torch


def suit(device: torch.device) -> None:
    """Leave cuDNN's attention out where a model is on a GPU; on other devices nothing changes.

    On some GPUs torch prefers it to its other kernels, and it makes a plan for each shape that it has not seen. Here
    the width of the cache, the number of rows and their length are other ones in nearly every call, so plans would take
    longer than attention. Whatever else in this process computes attention on a GPU goes without it, too.
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
