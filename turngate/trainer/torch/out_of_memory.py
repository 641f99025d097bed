"""Where memory runs out, which settings need less of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import OutOfMemory


@contextmanager
def naming_settings(settings: Sequence[str]) -> Iterator[None]:
    """Raise an allocator's refusal inside as OutOfMemory, which names ``settings``."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OutOfMemory) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"the learner ran out of memory; {', or '.join(settings)}") from error
