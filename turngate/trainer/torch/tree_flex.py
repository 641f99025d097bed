"""Attention in a ``PrefixTree`` by torch's FlexAttention: one kernel that leaves out what no token sees.

Nodes are in depth-first order, so what descends from node k are the nodes k ≤ q < end[k]; and the tokens that a sliding
window shows node q are those of its path from some node first[q] on. Two whole numbers per node therefore say who sees
whom, for every tree and every window, and the kernel is compiled once for all of them:

    first[q] ≤ k ≤ q < end[k]

FlexAttention computes no gradients on a CPU. There it is called for measurements alone, by tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from turngate.errors import ConfigError
from turngate.trainer.torch.prefix_tree import Int64Array, PrefixTree
from turngate.types import BoolArray

Int32Array = npt.NDArray[np.int32]

BLOCK = 128
"""Queries, and keys, of a block, which is computed or left out as a whole; torch's own default."""
FEWEST = 3
"""Blocks of the smallest tree: with one block, a kernel would be compiled that fits no other number of them."""


@dataclass(frozen=True, slots=True, eq=False)
class FlexLayout:
    """A tree, ready for FlexAttention: padded to P nodes, a multiple of ``BLOCK``, behind its own T.

    A padded node sees itself alone, and nothing sees it. Which nodes see which is computed once per window.
    """

    tree: PrefixTree
    depth_T: torch.Tensor  # [P]
    masks: dict[int | None, BlockMask] = field(default_factory=dict)

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        scaling: float | None,
        dropout: float,
        window: int | None,
    ) -> torch.Tensor:
        """``query`` [1, heads, P, d], ``key`` and ``value`` [1, key heads, P, d]: [1, P, heads, d].

        Raises ConfigError for dropout, which FlexAttention does not know, and whatever its compiler raises.
        """
        if dropout:
            raise ConfigError(f"FlexAttention knows no dropout, and the model has {dropout:g}")
        if window is not None and window > self.tree.depth_T.max():
            window = None
        if window not in self.masks:
            self.masks[window] = mask_of(*visible_nodes(self.tree, len(self.depth_T), window), query.device)
        query, key, value = _as_matrices(query, key, value)
        grouped = query.shape[1] != key.shape[1]
        attention: Any = compiled() if query.device.type == "cuda" else flex_attention
        result: torch.Tensor = attention(
            query, key, value, block_mask=self.masks[window], scale=scaling, enable_gqa=grouped
        )
        return result.transpose(1, 2)


def flex_layout(tree: PrefixTree, device: torch.device) -> FlexLayout:
    """The tree, padded."""
    depth_P = np.zeros(_padded(len(tree.ids_T)), np.int64)
    depth_P[: len(tree.ids_T)] = tree.depth_T
    return FlexLayout(tree, torch.as_tensor(depth_P, device=device))


def flex_pairs(tree: PrefixTree) -> int:
    """How many pairs of tokens are computed for ``tree``: those of all blocks that are not left out."""
    some, _ = blocks_of(*visible_nodes(tree, _padded(len(tree.ids_T)), None))
    return int(some.sum()) * BLOCK**2


@cache
def compiled(backend: str | Callable[..., object] = "inductor") -> Callable[..., torch.Tensor]:
    """FlexAttention for trees of every size. Nothing is compiled before the first call."""
    return torch.compile(flex_attention, dynamic=True, fullgraph=True, backend=backend)


def _padded(nodes: int) -> int:
    return max(FEWEST, -(-nodes // BLOCK)) * BLOCK


def _as_matrices(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """In the precision of matrix products, in which autocast leaves some and others not."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return list(tensors)
    return [tensor.to(torch.get_autocast_dtype(kind)) for tensor in tensors]


# --- who sees whom ----------------------------------------------------------------------------------------------------


def visible_nodes(tree: PrefixTree, padded: int, window: int | None) -> tuple[Int32Array, Int32Array]:
    """``first`` and ``end`` of each node, int32 [P]; see above. ``window``: a node sees so many tokens with itself."""
    first_P = np.arange(padded, dtype=np.int32)
    end_P = first_P + np.int32(1)
    end_P[: len(tree.ids_T)] = tree.end_T
    first_P[: len(tree.ids_T)] = 0 if window is None else _first(tree, window)
    return first_P, end_P


def _first(tree: PrefixTree, window: int) -> Int64Array:
    """The node of each path with which the window of a node begins: [T]."""
    first_T = np.zeros(len(tree.ids_T), np.int64)
    for stem in tree.stems:
        path = np.concatenate([stem.path, np.arange(stem.start, stem.end)])
        first_T[stem.start : stem.end] = path[np.maximum(tree.depth_T[stem.start : stem.end] - window + 1, 0)]
    return first_T


def blocks_of(first_P: Int32Array, end_P: Int32Array) -> tuple[BoolArray, BoolArray]:
    """In which blocks some query may see some key, and in which every query sees every key: bool [n, n], query first.

    With a window, the first of both may name a block too many, of which the kernel then shows nothing.
    """
    first, end = first_P.reshape(-1, BLOCK), end_P.reshape(-1, BLOCK)
    start = np.arange(0, len(first_P), BLOCK)
    before, same = start[None, :] < start[:, None], np.eye(len(start), dtype=bool)
    some = before & (end.max(1)[None, :] > start[:, None]) & (first.min(1)[:, None] < start[None, :] + BLOCK)
    every = before & (end.min(1)[None, :] >= start[:, None] + BLOCK) & (first.max(1)[:, None] <= start[None, :])
    return some | same, every


def mask_of(first_P: Int32Array, end_P: Int32Array, device: torch.device) -> BlockMask:
    """What FlexAttention asks: whether a query sees a key, and in which blocks it has to ask."""
    first, end = (torch.as_tensor(array, device=device) for array in (first_P, end_P))

    def sees(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (first[query] <= key) & (key <= query) & (query < end[key])

    some, every = blocks_of(first_P, end_P)
    asked, which = _listed(some & ~every, device)
    whole, which_whole = _listed(every, device)
    return BlockMask.from_kv_blocks(asked, which, whole, which_whole, BLOCK_SIZE=BLOCK, mask_mod=sees)


def _listed(blocks: BoolArray, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks of keys each block of queries has, int32 [1, 1, n], and which, int32 [1, 1, n, n]."""
    which = np.argsort(~blocks, axis=1, kind="stable").astype(np.int32)
    many = blocks.sum(1, dtype=np.int32)
    return torch.as_tensor(many, device=device)[None, None], torch.as_tensor(which, device=device)[None, None]
