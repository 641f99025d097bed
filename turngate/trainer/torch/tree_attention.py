"""Attention in a ``PrefixTree``: each token sees the tokens before it on its own path, and no others.

The whole tree goes through the model as one row, so that all but attention is computed once for each node, without
padding. transformers looks the attention up by name (``NAME``) and hands the layout through to it: that of
FlexAttention on a GPU, elsewhere ``BlockLayout``, which gathers the path of each stem into a dense block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch

from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError
from turngate.trainer.torch.prefix_tree import Int64Array, PrefixTree, Stem
from turngate.trainer.torch.tree_flex import FlexLayout, flex_layout, flex_pairs

TreeKernel: TypeAlias = Literal["flex", "blocks"]
"""What computes attention along a tree: FlexAttention, or products of dense blocks."""

NAME = "turngate_prefix_tree"
UNDERSTOOD = {"tree", "position_ids", "use_cache", "output_attentions", "cache_position", "is_causal"}
"""Arguments that models pass to attention besides those named below, and that have no effect here."""
WASTE = 1.5
"""Stems of unequal length are one call of attention as long as padding adds no more than half."""
SMALL = 2**14
"""Pairs of tokens, about as many as are computed in the time that a further call of attention takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Stems that are one call of attention: b stems, at most q own tokens and k tokens on the path and own."""

    queries: torch.Tensor  # [b·q], nodes; padded with any
    keys: torch.Tensor  # [b·k]
    mask: torch.Tensor  # bool [b, 1, q, k]


@dataclass(frozen=True, slots=True, eq=False)
class BlockLayout:
    """A tree, ready for attention by blocks. ``place_T``: where each node's result is in the results of all blocks."""

    blocks: tuple[Block, ...]
    place_T: torch.Tensor
    depth_T: torch.Tensor

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
        """``query`` [1, heads, T, d], ``key`` and ``value`` [1, key heads, T, d]: [1, T, heads, d]."""
        query_T, key_T, value_T = (one[0].transpose(0, 1) for one in (query, key, value))
        results = []
        for block in self.blocks:
            b = len(block.mask)
            result = torch.nn.functional.scaled_dot_product_attention(
                _chosen(query_T, block.queries, b),
                _chosen(key_T, block.keys, b),
                _chosen(value_T, block.keys, b),
                attn_mask=block.mask if window is None else self._within(block, window),
                dropout_p=dropout,
                scale=scaling,
                enable_gqa=query.shape[1] != key.shape[1],
            )
            results.append(result.transpose(1, 2).flatten(0, 1))
        return torch.cat(results).index_select(0, self.place_T)[None]

    def _within(self, block: Block, window: int) -> torch.Tensor:
        """The mask of a block under a sliding window."""
        b, _, q, k = block.mask.shape
        apart = self.depth_T[block.queries].view(b, 1, q, 1) - self.depth_T[block.keys].view(b, 1, 1, k)
        mask = block.mask & (apart < window)
        return mask | ~mask.any(-1, keepdim=True)  # a row of padding sees something, too


Layout: TypeAlias = BlockLayout | FlexLayout
"""A tree, ready for attention. ``depth_T`` has the positions of its nodes, and of padding behind them."""


def kernels_on(device: torch.device) -> list[TreeKernel]:
    """What may compute attention along a tree, in the order in which it is tried."""
    return ["flex", "blocks"] if device.type == "cuda" else ["blocks"]


def pairs_of(tree: PrefixTree, kernel: TreeKernel) -> int:
    """How many pairs of tokens attention computes for ``tree``, with padding."""
    return flex_pairs(tree) if kernel == "flex" else sum(_area(stems) for stems in _calls(tree.stems))


def layout_of(tree: PrefixTree, device: torch.device, kernel: TreeKernel) -> Layout:
    """What ``kernel`` asks of ``tree``."""
    return flex_layout(tree, device) if kernel == "flex" else _block_layout(tree, device)


def _block_layout(tree: PrefixTree, device: torch.device) -> BlockLayout:
    blocks, place_T, n_rows = [], np.zeros(len(tree.ids_T), np.int64), 0
    for stems in _calls(tree.stems):
        queries, keys, mask = _block(stems)
        for row, stem in enumerate(stems):
            place_T[stem.start : stem.end] = n_rows + row * queries.shape[1] + np.arange(stem.end - stem.start)
        n_rows += queries.size
        tensors = (torch.as_tensor(array, device=device) for array in (queries.ravel(), keys.ravel(), mask[:, None]))
        blocks.append(Block(*tensors))
    places, depths = (torch.as_tensor(array, device=device) for array in (place_T, tree.depth_T))
    return BlockLayout(tuple(blocks), places, depths)


def _calls(stems: Sequence[Stem]) -> Iterator[list[Stem]]:
    """Stems of similar size together."""
    call: list[Stem] = []
    pairs = 0
    for stem in sorted(stems, key=lambda stem: (stem.end - stem.start, len(stem.path))):
        own = stem.end - stem.start
        pairs += own * (len(stem.path) + own)
        if call and _area([*call, stem]) > WASTE * pairs + SMALL:
            yield call
            call, pairs = [], own * (len(stem.path) + own)
        call.append(stem)
    if call:
        yield call


def _area(stems: Sequence[Stem]) -> int:
    own = max(stem.end - stem.start for stem in stems)
    seen = max(len(stem.path) + stem.end - stem.start for stem in stems)
    return len(stems) * own * seen


def _block(stems: Sequence[Stem]) -> tuple[Int64Array, Int64Array, np.ndarray]:
    """Nodes that ask [b, q], nodes that are seen [b, k], and who sees what [b, q, k]; every row sees something."""
    own = np.array([stem.end - stem.start for stem in stems])
    before = np.array([len(stem.path) for stem in stems])
    queries = np.zeros((len(stems), own.max()), np.int64)
    keys = np.zeros((len(stems), (before + own).max()), np.int64)
    for row, stem in enumerate(stems):
        nodes = np.arange(stem.start, stem.end)
        queries[row, : len(nodes)] = nodes
        keys[row, : before[row] + len(nodes)] = np.concatenate([stem.path, nodes])
    last = before[:, None] + np.minimum(np.arange(queries.shape[1]), own[:, None] - 1)  # the last key each query sees
    return queries, keys, np.arange(keys.shape[1]) <= last[:, :, None]


# --- inside the model -------------------------------------------------------------------------------------------------


@contextmanager
def attending(model: LanguageModel) -> Iterator[None]:
    """Inside, ``model`` attends along the tree that it is called with."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, tree_attention)
    with attention_named(model, NAME):
        yield


@contextmanager
def attention_named(model: LanguageModel, name: str) -> Iterator[None]:
    """Inside, ``model`` attends by the function that transformers knows as ``name``."""
    config, before = model.config, model.config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    tree: Layout,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **more: object,
) -> tuple[torch.Tensor, None]:
    """Attention as transformers calls it: ``query`` [1, heads, T, d], ``key`` and ``value`` [1, key heads, T, d].

    Raises ConfigError for a variant of attention that this one does not know, such as sinks or capped scores.
    """
    unknown = sorted(name for name, setting in more.items() if name not in UNDERSTOOD and setting is not None)
    if unknown or attention_mask is not None:
        raise ConfigError(f"attention along a tree knows no {', '.join(unknown) or 'attention_mask'}")
    return tree.attend(query, key, value, scaling=scaling, dropout=dropout, window=sliding_window), None


def _chosen(each_T: torch.Tensor, nodes: torch.Tensor, stems: int) -> torch.Tensor:
    """The vectors of some nodes, [T, heads, d], by stem: [b, heads, nodes of a stem, d]."""
    _, heads, width = each_T.shape
    return each_T.index_select(0, nodes).view(stems, -1, heads, width).transpose(1, 2)
