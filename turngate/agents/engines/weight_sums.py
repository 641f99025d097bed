"""A checksum of a model's weights that does not depend on how they are laid out.

An engine fuses matrices (queries, keys and values become one), pads tables with zeros and keeps tied tables once. The
same numbers are then in other tensors and in another order, so hashes of tensors cannot be compared. The collection of
numbers stays the same. Of it the checksum has how many are not zero, the sum of their bit patterns and the sum of the
squares of these, modulo 2^64. One changed bit anywhere changes the first sum. Two tensors that were swapped are not
found; the canary, which compares log-probabilities, finds those.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

_CHUNK = 1 << 22  # numbers that are turned into 64 bits at once
_BITS = {2: torch.int16, 4: torch.int32}


def fingerprint(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> list[int]:
    """Of all ``tensors`` together, in the precision ``dtype`` (of 2 or 4 bytes): [count, sum, sum of squares]."""
    total = [0, 0, 0]
    for tensor in tensors:
        for chunk in tensor.detach().reshape(-1).split(_CHUNK):  # type: ignore[no-untyped-call]
            exact = chunk.to(dtype) + 0.0  # -0 becomes 0
            bits = exact.view(_BITS[dtype.itemsize]).to(torch.int64)
            found = torch.stack([bits.count_nonzero(), bits.sum(), (bits * bits).sum()]).tolist()
            total = [(one + other) % 2**64 for one, other in zip(total, found, strict=True)]
    return total
