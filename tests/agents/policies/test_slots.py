"""The cache against a plain list of what was written where."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from turngate.agents.policies.kv_cache import SlotCache

CONFIG = SimpleNamespace(num_key_value_heads=2, head_dim=3, num_hidden_layers=2, hidden_size=6, num_attention_heads=2)
SLOTS = 4


def cache():
    return SlotCache(CONFIG, SLOTS, device=torch.device("cpu"), dtype=torch.float32)


def write(slots, rows, columns, width, seed):
    """New keys and values in both layers: what went in and what came back, each [layer][r, heads, ·, dim]."""
    torch.manual_seed(seed)
    slots.aim(rows, torch.tensor(columns), width)
    shape = (len(rows), 2, len(columns[0]), 3)
    pairs = [(torch.randn(shape), torch.randn(shape)) for _ in range(2)]
    back = [slots.update(keys, values, layer) for layer, (keys, values) in enumerate(pairs)]
    return pairs, back


@pytest.mark.parametrize("rows", [[0, 1, 2], [3, 1], [0], [2]], ids=str)
def test_what_is_written_is_read_back_from_the_same_place(rows):
    slots = cache()
    pairs, back = write(slots, rows, [[0, 1, 2]] * len(rows), 3, seed=0)
    for (keys, values), (all_keys, all_values) in zip(pairs, back, strict=True):
        assert torch.equal(all_keys, keys)
        assert torch.equal(all_values, values)
    more, back = write(slots, rows, [[3]] * len(rows), 4, seed=1)
    for layer in range(2):
        for kind in range(2):
            assert torch.equal(back[layer][kind], torch.cat([pairs[layer][kind], more[layer][kind]], dim=2))


def test_rows_do_not_touch_each_other_and_padding_touches_nobody():
    slots = cache()
    first, _ = write(slots, [0, 1], [[0, 1], [0, 1]], 2, seed=0)
    _, back = write(slots, [0, 1], [[2], [slots.scratch]], 3, seed=1)
    assert torch.equal(back[0][0][1, :, :2], first[0][0][1])
    assert torch.equal(back[0][0][1, :, 2], torch.zeros(2, 3))


def test_growing_keeps_what_is_there():
    slots = cache()
    pairs, _ = write(slots, [0, 1], [[0, 1], [0, 1]], 2, seed=0)
    before = slots.capacity
    slots.reserve(before)
    assert slots.capacity == before
    slots.reserve(before + 1)
    assert slots.capacity == 2 * before
    assert slots.scratch == slots.capacity
    _, back = write(slots, [0, 1], [[before], [before]], before + 1, seed=1)
    assert torch.equal(back[1][1][:, :, :2], pairs[1][1])
    assert not back[1][1][:, :, 2:before].any()


def test_a_growth_that_fails_changes_nothing(monkeypatch):
    slots = cache()
    pairs, _ = write(slots, [0], [[0, 1]], 2, seed=0)
    before = slots.capacity

    def no_memory(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(torch, "zeros", no_memory)
        with pytest.raises(MemoryError):
            slots.reserve(10 * before)
    assert slots.capacity == before
    _, back = write(slots, [0], [[2]], 3, seed=1)
    assert torch.equal(back[0][0][:, :, :2], pairs[0][0])


def test_copy_takes_the_first_tokens_of_a_row():
    slots = cache()
    pairs, _ = write(slots, [0, 1], [[0, 1, 2], [0, 1, 2]], 3, seed=0)
    slots.copy(0, 1, 2)
    _, back = write(slots, [0, 1], [[3], [3]], 4, seed=1)
    for layer in range(2):
        for kind in range(2):
            assert torch.equal(back[layer][kind][1, :, :2], pairs[layer][kind][0, :, :2])
            assert torch.equal(back[layer][kind][1, :, 2], pairs[layer][kind][1, :, 2])


def test_random_writes_agree_with_a_dictionary():
    rng = np.random.default_rng(0)
    slots, known = cache(), {}
    filled = [0] * SLOTS
    for step in range(40):
        rows = sorted(rng.choice(SLOTS, size=rng.integers(1, SLOTS + 1), replace=False).tolist())
        columns = [[filled[row]] for row in rows]
        pairs, back = write(slots, rows, columns, max(filled[row] for row in rows) + 1, seed=step)
        for r, row in enumerate(rows):
            known[row, filled[row]] = pairs[1][0][r, :, 0]
            filled[row] += 1
            for column in range(filled[row]):
                assert torch.equal(back[1][0][r, :, column], known[row, column])


def test_single_tokens_are_written_where_padded_ones_would_be():
    slots, padded = cache(), cache()
    rows, columns = torch.tensor([2, 0, 0, 3]), torch.tensor([5, 0, 1, 255])
    heads = torch.randn(4, 2 * 2, 3)
    for layer in range(2):
        slots.write(layer, slots.places(rows, columns), heads)
    for token, (row, column) in enumerate(zip(rows, columns, strict=True)):
        padded.aim([int(row)], column[None, None], int(column) + 1)
        for layer in range(2):
            padded.update(heads[token, None, :2, None], heads[token, None, 2:, None], layer)
    for layer in range(2):
        for mine, its in zip(slots.read(layer, slice(SLOTS), 256), padded.read(layer, slice(SLOTS), 256), strict=True):
            assert torch.equal(mine, its)
    assert torch.equal(slots.read(1, slice(3, 4), 256)[1][0, :, 255], heads[3, 2:])
