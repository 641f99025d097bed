"""A batch as what the model is called with, a bounded number of tokens at once: rows, or trees of shared prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from turngate.trainer.torch.prefix_tree import PrefixTree
from turngate.trainer.torch.tree_attention import Layout, TreeKernel, layout_of
from turngate.types import Batch, BoolArray

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Whole segments, the places of their trained tokens, and the places whose states get a value.

    Places count through ``ids`` row by row. Trained tokens that are one node of a tree share their prediction:
    ``shared`` says which of the P predictions is that of each of the S trained tokens.
    """

    ids: torch.Tensor  # [r, t]
    tree: Layout | None  # None: each row is a segment, padded on the right
    before: torch.Tensor  # [P], place of the token before the predicted one
    predicted: torch.Tensor  # [P], ids
    shared: torch.Tensor  # [S]
    flat: Int64Array  # [S], index into the batch
    valued: torch.Tensor  # [M], place
    valued_flat: Int64Array  # [M], index into the batch


def rows_of(
    batch: Batch, trained: BoolArray, valued: BoolArray, *, at_most: int, device: torch.device
) -> Iterator[Rows]:
    """The batch as several ``Rows``: segments of similar length together, at most ``at_most`` tokens with padding.

    A segment that is longer than that comes alone. ``trained`` and ``valued``, bool[L], mark the tokens to predict, and
    the tokens after which the value of the state is wanted.
    """
    starts, lengths = _segments(batch)
    for chosen in _alike(lengths, at_most):
        yield _rows(batch, trained, valued, starts[chosen], lengths[chosen], device)


def padded(batch: Batch, at_most: int) -> tuple[int, int]:
    """How many tokens ``rows_of`` computes, and how many pairs of tokens its attention does, both with padding."""
    _, lengths = _segments(batch)
    shapes = [(len(chosen), int(lengths[chosen].max())) for chosen in _alike(lengths, at_most)]
    return sum(r * t for r, t in shapes), sum(r * t * t for r, t in shapes)


def tree_rows(
    batch: Batch, tree: PrefixTree, trained: BoolArray, valued: BoolArray, device: torch.device, kernel: TreeKernel
) -> Rows:
    """The segments of ``tree`` as one row, with no more padding than ``kernel`` asks for."""
    here = tree.node_L >= 0
    flat, valued_flat = np.flatnonzero(trained & here), np.flatnonzero(valued & here)
    nodes, shared = np.unique(tree.node_L[flat], return_inverse=True)
    layout = layout_of(tree, device, kernel)
    ids = np.zeros((1, len(layout.depth_T)), np.int64)
    ids[0, : len(tree.ids_T)] = tree.ids_T
    arrays = (ids, tree.parent_T[nodes], tree.ids_T[nodes], shared, tree.node_L[valued_flat])
    ids_T, before, predicted, shared_S, valued_M = (torch.as_tensor(array, device=device) for array in arrays)
    return Rows(ids_T, layout, before, predicted, shared_S, flat, valued_M, valued_flat)


def _segments(batch: Batch) -> tuple[Int64Array, Int64Array]:
    """Where each segment starts, and how long it is."""
    starts = np.flatnonzero(batch.position_L == 0)
    return starts, np.diff(np.append(starts, batch.n_tokens))


def _alike(lengths: Int64Array, at_most: int) -> Iterator[list[int]]:
    """Segments of similar length together, at most ``at_most`` tokens with padding."""
    chosen: list[int] = []
    for segment in np.argsort(lengths, kind="stable"):
        if chosen and lengths[segment] * (len(chosen) + 1) > at_most:
            yield chosen
            chosen = []
        chosen.append(int(segment))
    if chosen:
        yield chosen


def _rows(
    batch: Batch, trained: BoolArray, valued: BoolArray, starts: Int64Array, lengths: Int64Array, device: torch.device
) -> Rows:
    width = int(lengths.max())
    place = starts[:, None] + np.arange(width)
    real = np.arange(width) < lengths[:, None]
    place = np.where(real, place, starts[:, None])
    flat, valued_flat = (place[wanted[place] & real] for wanted in (trained, valued))
    arrays = (
        np.where(real, batch.ids_L[place], 0).astype(np.int64),
        np.flatnonzero(trained[place] & real) - 1,  # nothing predicts a first token, so this is never another row
        batch.ids_L[flat].astype(np.int64),
        np.arange(len(flat)),
        np.flatnonzero(valued[place] & real),
    )
    ids, before, predicted, shared, valued_M = (torch.as_tensor(array, device=device) for array in arrays)
    return Rows(ids, None, before, predicted, shared, flat, valued_M, valued_flat)
