"""Segments as right-padded rows, a bounded number of tokens at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from turngate.types import Batch, BoolArray

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Whole segments, the places of their trained tokens, and the places whose states get a value."""

    ids: torch.Tensor  # [r, t]
    row: torch.Tensor  # [S]
    column: torch.Tensor  # [S], never 0: nothing predicts a first token
    flat: Int64Array  # [S], index into the batch
    valued_row: torch.Tensor  # [M]
    valued_column: torch.Tensor  # [M]
    valued_flat: Int64Array  # [M], index into the batch


def rows_of(
    batch: Batch, trained: BoolArray, valued: BoolArray, *, at_most: int, device: torch.device
) -> Iterator[Rows]:
    """The batch as several ``Rows``: segments of similar length together, at most ``at_most`` tokens with padding.

    A segment that is longer than that comes alone. ``trained`` and ``valued``, bool[L], mark the tokens to predict, and
    the tokens after which the value of the state is wanted.
    """
    starts = np.flatnonzero(batch.position_L == 0)
    lengths = np.diff(np.append(starts, batch.n_tokens))
    chosen: list[int] = []
    for segment in np.argsort(lengths, kind="stable"):
        if chosen and lengths[segment] * (len(chosen) + 1) > at_most:
            yield _rows(batch, trained, valued, starts[chosen], lengths[chosen], device)
            chosen = []
        chosen.append(int(segment))
    if chosen:
        yield _rows(batch, trained, valued, starts[chosen], lengths[chosen], device)


def _rows(
    batch: Batch, trained: BoolArray, valued: BoolArray, starts: Int64Array, lengths: Int64Array, device: torch.device
) -> Rows:
    width = int(lengths.max())
    place = starts[:, None] + np.arange(width)
    real = np.arange(width) < lengths[:, None]
    place = np.where(real, place, starts[:, None])
    row, column = np.nonzero(trained[place] & real)
    valued_row, valued_column = np.nonzero(valued[place] & real)
    return Rows(
        ids=torch.as_tensor(np.where(real, batch.ids_L[place], 0).astype(np.int64), device=device),
        row=torch.as_tensor(row, device=device),
        column=torch.as_tensor(column, device=device),
        flat=place[row, column],
        valued_row=torch.as_tensor(valued_row, device=device),
        valued_column=torch.as_tensor(valued_column, device=device),
        valued_flat=place[valued_row, valued_column],
    )
