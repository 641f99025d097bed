"""Where memory runs out, which settings need less of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from turngate.errors import OutOfMemory


@contextmanager
def naming_settings(settings: Sequence[str]) -> Iterator[None]:
    """Raise an allocator's refusal inside as OutOfMemory, which names ``settings``."""
    try:
        yield
    except RuntimeError as error:
        if not (isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
            raise
        raise OutOfMemory(f"the learner ran out of memory; {', or '.join(settings)}") from error
