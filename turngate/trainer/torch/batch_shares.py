"""A batch divided among processes: whole trajectories, and about as many tokens for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from turngate.trainer.learner import Measured
from turngate.types import Batch, FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Share:
    """The tokens ``first``, ``first + 1``, … of a batch, whose trajectories are counted from ``first_segment`` on.

    ``batch`` counts them from 0. ``total`` is Σ ``policy_weight`` over the whole batch, which losses divide by.
    """

    batch: Batch
    first: int
    first_segment: int
    total: float

    def of(self, measured: Measured) -> dict[str, FloatArray]:
        """The entries of these tokens in columns of the whole batch."""
        return {name: column[self.first : self.first + self.batch.n_tokens] for name, column in measured.items()}


def shares_of(batch: Batch, n: int) -> list[Share]:
    """The batch in ``n`` shares, some of them empty if it has few trajectories.

    Neighbours stay together where that is possible, because siblings share prefixes, which one process computes once.
    """
    starts = np.flatnonzero(np.diff(batch.segment_L, prepend=-1))
    ends = np.append(starts, batch.n_tokens)
    wanted = np.arange(1, n) * batch.n_tokens / n
    nearest = [int(ends[np.abs(ends - place).argmin()]) for place in wanted]
    bounds = [0, *nearest, batch.n_tokens]
    total = float(batch.policy_weight_L.sum())
    return [_share(batch, first, end, total) for first, end in pairwise(bounds)]


def join_columns(parts: Sequence[FloatArray]) -> FloatArray:
    """Columns of the shares as one of the whole batch."""
    return np.concatenate(parts)


def _share(batch: Batch, first: int, end: int, total: float) -> Share:
    columns = {field.name: getattr(batch, field.name)[first:end] for field in fields(batch)}
    part = Batch(**columns)
    first_segment = int(part.segment_L[0]) if part.n_tokens else 0
    part = replace(part, segment_L=part.segment_L - part.segment_L.dtype.type(first_segment))
    return Share(batch=part, first=first, first_segment=first_segment, total=total)
