"""Branches are fed only what they add: the cache rows of ended episodes are copied to those that begin like them."""

import numpy as np
import pytest

from tests.agents.test_tree_rollout import Anywhere, grow
from tests.helpers import models
from tests.helpers.rounding import PASS, assert_logprobs
from turngate.agents.policies.kv_cache import SlotCache
from turngate.agents.policies.prefix_cache import PrefixMemory


@pytest.mark.parametrize("concurrency", [2, 5])  # with 2 the memory forgets most episodes
def test_logprobs_of_branches_are_those_of_a_plain_forward_pass(concurrency):
    source = models.model()
    groups = grow(Anywhere(), policy=models.local(source, concurrency=concurrency), budget=9)
    n_branches = 0
    for leaf in (leaf for group in groups for leaf in group.trajectories):
        n_branches += leaf.parent is not None
        naive, end = models.naive_logprobs(source, leaf.ids()), 0
        for turn in leaf.turns:
            start = end + len(turn.context_ids)
            end = start + len(turn.completion.ids_K)
            assert_logprobs(turn.completion.logprobs_K, naive[start:end], PASS)
    assert n_branches > 8
    assert groups == grow(Anywhere(), policy=models.local(models.model(), concurrency=concurrency), budget=9)


def test_a_branch_is_fed_only_the_end_of_its_context(monkeypatch):
    policy = models.local(concurrency=4)
    fed = []

    def watched(feeds, go_on=policy._forward):
        fed.extend(len(feed.ids) for feed in feeds)
        return go_on(feeds)

    monkeypatch.setattr(policy, "_forward", watched)
    leaves = [leaf for group in grow(Anywhere(), policy=policy, budget=4) for leaf in group.trajectories]
    new = [turn for leaf in leaves for turn in leaf.turns[leaf.parent[1] + 1 if leaf.parent else 0 :]]
    first = [leaf.turns[leaf.parent[1]] for leaf in leaves if leaf.parent]  # of it only the last id is fed
    most = sum(len(turn.source) for turn in new) + sum(1 + len(turn.completion.ids_K) for turn in first)
    assert sum(fed) <= most
    assert (policy._memory, policy._rows) == (None, [])


def test_the_oldest_row_is_forgotten_first_and_the_last_id_is_left_to_feed():
    model = models.model()
    parameter = next(model.parameters())
    settings = {"device": parameter.device, "dtype": parameter.dtype}
    cache, memory = SlotCache(model.config, 3, **settings), PrefixMemory(SlotCache(model.config, 2, **settings), 2)
    rows = [np.array(ids, np.int32) for ids in ([1, 2, 3], [1, 5], [7, 8])]
    for row, ids in enumerate(rows):
        cache._stores[0][row] = row + 1
        memory.put(cache, row, ids)
    asked = np.array([1, 2, 3, 4], np.int32)
    assert memory.recall(cache, 0, asked).tolist() == [1]  # of [1, 2, 3] nothing is known any more
    assert cache._stores[0][0, 0, :2, 0].tolist() == [2, 1]
    assert memory.recall(cache, 0, rows[2]).tolist() == [7]
    assert memory.recall(cache, 0, np.array([9, 9], np.int32)).tolist() == []
