"""Keeps the batch that a run stopped at, because no finite update could be made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from turngate.errors import NotFiniteError
from turngate.store.folder import writing
from turngate.trainer.learner import Measured
from turngate.types import Batch


def save_batch(path: Path, batch: Batch, measured: Measured) -> Path:
    """Write the arrays of ``batch`` and the columns that the learner was given beside it; ``numpy.load`` reads them.

    Raises WriteError.
    """
    arrays = {name: getattr(batch, name) for name in batch.__dataclass_fields__}
    with writing(path):
        np.savez(path, **arrays, **measured)  # type: ignore[arg-type]
    return path


@contextmanager
def keeping(keep: Callable[[Batch, Measured], Path | None], batch: Batch, measured: Measured) -> Iterator[None]:
    """Add to a NotFiniteError of the block, in which ``batch`` is learned from, where ``keep`` wrote that batch."""
    try:
        yield
    except NotFiniteError as error:
        path = keep(batch, measured)
        raise error if path is None else NotFiniteError(f"{error}; the batch is in '{path}'") from error
