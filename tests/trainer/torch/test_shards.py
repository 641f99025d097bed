"""A learner's state in files of bounded size.

1. What was written comes back equal, kinds of containers and of keys included.
2. No file has more bytes of tensors than it may, unless one tensor alone has.
3. A file of ``torch.save``, as older runs wrote it, is refused.
4. A part that is missing or changed is named, and a checkpoint with it is not used.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from tests.helpers import models
from turngate.errors import StoreError
from turngate.trainer.checkpoint import Checkpoints
from turngate.trainer.torch.learner import TorchLearner
from turngate.trainer.torch.shards import read_state, write_state

CPU = torch.device("cpu")
STATE = {
    "model": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)},
    "optimizer": {
        "state": {0: {"step": torch.tensor(3.0), "seen": None}},
        "groups": [{"betas": (0.9, 0.95), "on": True}],
    },
    "memory": {"scale": 0.1 + 0.2, "far": float("inf"), "name": "x", "n": 7},
}


def plain(value: object) -> object:
    """With tensors as (dtype, numbers), so that ``==`` compares them."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(plain(one) for one in value) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("most", [1, 30, 10**9])
def test_what_was_written_comes_back_equal(most: int, tmp_path: Path):
    write_state(STATE, tmp_path / "state.pt", shard_bytes=most)
    assert plain(read_state(tmp_path / "state.pt", CPU)) == plain(STATE)
    sizes = []
    for path in sorted(tmp_path.glob("state-*.safetensors")):
        with safe_open(path, framework="pt") as shard:
            sizes.append([shard.get_tensor(name).nbytes for name in shard.keys()])  # noqa: SIM118 (it is no mapping)
    assert sum(map(len, sizes)) == 3
    assert all(sum(one) <= most or len(one) == 1 for one in sizes)
    assert len(sizes) == {1: 3, 30: 2, 10**9: 1}[most]


def test_views_of_one_storage_are_written_apart(tmp_path: Path):
    whole = torch.arange(8.0)
    write_state({"a": whole[:4], "b": whole[4:], "c": whole.reshape(2, 4).T}, tmp_path / "state.pt")
    found = read_state(tmp_path / "state.pt", CPU)
    assert [one.tolist() for one in found.values()] == [[0, 1, 2, 3], [4, 5, 6, 7], [[0, 4], [1, 5], [2, 6], [3, 7]]]
    assert (tmp_path / "state-00001.safetensors").stat().st_size < 1000


def test_what_cannot_be_saved_is_told_before_anything_is_written(tmp_path: Path):
    with pytest.raises(StoreError, match=r"holds .* of type function, which cannot be saved"):
        write_state({"a": torch.ones(2), "f": plain}, tmp_path / "state.pt")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    torch.save(STATE, tmp_path / "state.pt")
    with pytest.raises(StoreError, match="is no state that this turngate wrote; begin the run again"):
        TorchLearner(models.plain_model(), lr=1e-3).load(tmp_path / "state.pt")


def test_another_version_is_refused(tmp_path: Path):
    write_state({}, tmp_path / "state.pt")
    row = json.loads((tmp_path / "state.pt").read_text())
    (tmp_path / "state.pt").write_text(json.dumps({**row, "version": 3}))
    with pytest.raises(StoreError, match="is of version 3, this turngate reads versions 1 and 2"):
        read_state(tmp_path / "state.pt", CPU)


def test_a_checkpoint_with_a_missing_or_changed_shard_is_not_used(tmp_path: Path):
    checkpoints, learner = Checkpoints(tmp_path), TorchLearner(models.plain_model(), lr=1e-3)
    for step in (1, 2):
        checkpoints.save(step, learner)
    shard = tmp_path / "step=000002" / "state-00001.safetensors"
    assert set(json.loads((tmp_path / "step=000002/sums.json").read_text())) == {"state.pt", shard.name}
    kept = shard.read_bytes()
    shard.write_bytes(kept[:-4] + b"\0\0\0\1")
    assert checkpoints.set_damaged_aside() == {2: "state-00001.safetensors is not what was written"}
    (tmp_path / "step=000001" / shard.name).unlink()
    with pytest.raises(StoreError, match=r"state-00001.safetensors', a part of .*, is missing"):
        checkpoints.load(1, learner)
