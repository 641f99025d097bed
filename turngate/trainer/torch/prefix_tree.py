"""Segments as a tree of tokens, in which a prefix that several share stands once.

Siblings share their prompt, branches share turns, and what a sure policy writes is often equal token for token. Under
causal attention the hidden state after a token depends on nothing but the tokens before it, so it is computed once for
all segments that begin alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turngate.types import Batch, IntArray

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stem:
    """Nodes in a row without a fork: ``path`` leads to them from the root, ``start`` to ``end`` are its own."""

    path: Int64Array
    start: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """Nodes are in depth-first order, so those of a stem stand side by side, and so do all that descend from a node."""

    ids_T: Int64Array
    depth_T: Int64Array
    """How many tokens stand before a node: its position."""
    parent_T: Int64Array
    """The node before; −1 for a first token."""
    end_T: Int64Array
    """The first node behind those that descend from a node: node q sees node k if k ≤ q < ``end_T[k]``."""
    stems: tuple[Stem, ...]
    node_L: Int64Array
    """The node of each token of the batch; −1 for tokens of other segments."""


def trees_of(batch: Batch, *, at_most: int) -> Iterator[PrefixTree]:
    """The batch as trees of at most ``at_most`` nodes each; a segment that is longer comes alone.

    Segments are sorted by their tokens, so that those which begin alike are neighbours.
    """
    starts = np.flatnonzero(batch.position_L == 0)
    if not len(starts):
        return
    ends = np.append(starts[1:], batch.n_tokens)
    ids = [batch.ids_L[start:end] for start, end in zip(starts, ends, strict=True)]
    order = sorted(range(len(ids)), key=lambda segment: ids[segment].astype(">i4").tobytes())
    chosen: list[int] = []
    n_nodes = 0
    for segment in order:
        new = len(ids[segment]) - (_alike(ids[chosen[-1]], ids[segment]) if chosen else 0)
        if chosen and n_nodes + new > at_most:
            yield _grown(chosen, ids, starts, batch.n_tokens)
            chosen, n_nodes, new = [], 0, len(ids[segment])
        chosen.append(segment)
        n_nodes += new
    if chosen:
        yield _grown(chosen, ids, starts, batch.n_tokens)


def _alike(one: IntArray, other: IntArray) -> int:
    """How many tokens both begin with."""
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    return int(differ[0]) if len(differ) else n


def _grown(chosen: Sequence[int], ids: Sequence[IntArray], starts: Int64Array, n_tokens: int) -> PrefixTree:
    """The tree of segments that are sorted by their tokens."""
    node_L = np.full(n_tokens, -1, np.int64)
    stems: list[Stem] = []
    own_ids: list[IntArray] = []
    ended: list[tuple[Int64Array, int]] = []
    path, before, n_nodes = np.zeros(0, np.int64), ids[chosen[0]][:0], 0
    for segment in chosen:
        own = ids[segment]
        shared = _alike(before, own)
        ended.append((path[shared:], n_nodes))
        new = np.arange(n_nodes, n_nodes + len(own) - shared)
        path, before, n_nodes = np.concatenate([path[:shared], new]), own, n_nodes + len(new)
        if len(new):
            stems.append(Stem(path[:shared], int(new[0]), n_nodes))
            own_ids.append(own[shared:])
        node_L[starts[segment] : starts[segment] + len(own)] = path
    parent_T, end_T = np.arange(n_nodes) - 1, np.full(n_nodes, n_nodes)
    for stem in stems:
        parent_T[stem.start] = stem.path[-1] if len(stem.path) else -1
    for nodes, end in ended:
        end_T[nodes] = end
    return PrefixTree(
        ids_T=np.concatenate(own_ids).astype(np.int64),
        depth_T=np.concatenate([len(stem.path) + np.arange(stem.end - stem.start) for stem in stems]),
        parent_T=parent_T,
        end_T=end_T,
        stems=tuple(stems),
        node_L=node_L,
    )
