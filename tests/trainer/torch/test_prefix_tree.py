"""Segments as a tree: every distinct prefix is one node, and each path spells its segment.

The brute force is the set of all prefixes.
"""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from turngate.trainer.torch.prefix_tree import trees_of
from turngate.trainer.torch.tree_attention import layout_of, pairs_of
from turngate.types import Batch

segments = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=12)


def batch_of(segments):
    lengths = [len(ids) for ids in segments]
    n = sum(lengths)
    zeros = np.zeros(n, np.float32)
    return Batch(
        ids_L=np.concatenate(segments).astype(np.int32),
        logprob_L=zeros,
        advantage_L=zeros,
        policy_weight_L=zeros,
        ce_weight_L=zeros,
        position_L=np.concatenate([np.arange(length) for length in lengths]).astype(np.int32),
        segment_L=np.repeat(np.arange(len(segments)), lengths).astype(np.int32),
        turn_L=np.zeros(n, np.int32),
        origin_L=np.zeros(n, np.uint8),
    )


def prefixes(segments):
    return {tuple(ids[: end + 1]) for ids in segments for end in range(len(ids))}


def spelled(tree, node):
    """The tokens from the root to ``node``."""
    ids = []
    while node >= 0:
        ids.append(int(tree.ids_T[node]))
        node = tree.parent_T[node]
    return tuple(reversed(ids))


@given(segments)
def test_one_tree_has_a_node_for_every_distinct_prefix(segments):
    batch = batch_of(segments)
    (tree,) = trees_of(batch, at_most=10_000)
    assert sorted(spelled(tree, node) for node in range(len(tree.ids_T))) == sorted(prefixes(segments))
    places = iter(tree.node_L)
    for ids in segments:
        for end in range(len(ids)):
            assert spelled(tree, next(places)) == tuple(ids[: end + 1])
    spellings = [spelled(tree, node) for node in range(len(tree.ids_T))]
    assert [len(one) - 1 for one in spellings] == list(tree.depth_T)
    for node, own in enumerate(spellings):
        descend = [other for other, one in enumerate(spellings) if one[: len(own)] == own]
        assert descend == list(range(node, tree.end_T[node]))


@given(segments, st.integers(1, 20))
def test_no_tree_is_larger_than_allowed_unless_it_is_one_segment(segments, at_most):
    batch = batch_of(segments)
    trees = list(trees_of(batch, at_most=at_most))
    assert (np.stack([tree.node_L >= 0 for tree in trees]).sum(0) == 1).all()
    for tree in trees:
        held = {tuple(ids) for segment, ids in enumerate(segments) if tree.node_L[batch.segment_L == segment][0] >= 0}
        assert len(tree.ids_T) == len(prefixes(held))
        assert len(tree.ids_T) <= at_most or len(held) == 1


@given(segments)
def test_each_token_sees_its_own_path_and_nothing_else(segments):
    (tree,) = trees_of(batch_of(segments), at_most=10_000)
    layout = layout_of(tree, torch.device("cpu"), "blocks")
    seen = []
    for block in layout.blocks:
        b, _, q, k = block.mask.shape
        keys = block.keys.view(b, 1, k).expand(b, q, k)
        seen += [keys[row, at][block.mask[row, 0, at]].tolist() for row in range(b) for at in range(q)]
    paths = [spelled(tree, node) for node in range(len(tree.ids_T))]
    for node, place in enumerate(layout.place_T.tolist()):
        path = [other for other, spelling in enumerate(paths) if paths[node][: len(spelling)] == spelling]
        assert sorted(seen[place]) == path
    assert sum(block.mask.numel() for block in layout.blocks) == pairs_of(tree, "blocks")


def test_stems_of_unequal_size_are_calls_of_their_own():
    long = [[first, *range(3, 400)] for first in (0, 1)]
    short = [[2, last] for last in range(3, 40)]
    (tree,) = trees_of(batch_of(long + short), at_most=10_000)
    layout = layout_of(tree, torch.device("cpu"), "blocks")
    sizes = [tuple(block.mask.shape) for block in layout.blocks]
    assert len(sizes) == 2
    assert max(sizes, key=lambda size: size[2])[2] == 398
    assert pairs_of(tree, "blocks") < 1.5 * (2 * 398**2 + 37 * 2) + 2**14
