"""A learner's state on disk: tensors in safetensors files of bounded size, and an index that says how they belong
together.

    state.pt                       the index, JSON: containers, numbers and texts, with the tensors' places
    state-00001.safetensors        tensors in the order of the index, at most ``SHARD_BYTES`` of them
    state-00002.safetensors        …

A file that is written in one piece needs all of the state in memory once more, and some file systems and stores take
files of a few GB only. Whoever holds a part of the weights, such as adapters or one rank, writes that part as a state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from turngate.errors import StoreError

SHARD_BYTES = 2_000_000_000
"""Most bytes of tensors in one file; a larger tensor has a file of its own."""
VERSION = 1
_FORMAT = "turngate state"


def write_state(state: Mapping[str, object], path: Path, *, shard_bytes: int = SHARD_BYTES) -> None:
    """Write a nested state of dictionaries, lists, tuples, tensors, numbers, texts, booleans and None.

    ``path`` becomes the index; the shards lie beside it. Raises StoreError for any other value, before anything is
    written, OSError or RuntimeError for a disk that refuses.
    """
    tensors: list[torch.Tensor] = []
    tree = _described(state, tensors)
    shards = list(_cut([tensor.nbytes for tensor in tensors], shard_bytes))
    names = [f"{path.stem}-{number:05d}.safetensors" for number in range(1, len(shards) + 1)]
    for name, shard in zip(names, shards, strict=True):
        try:
            save_file({str(place): _alone(tensors[place]) for place in shard}, path.with_name(name))
        except SafetensorError as error:
            raise RuntimeError(str(error)) from error
    places = {str(place): name for name, shard in zip(names, shards, strict=True) for place in shard}
    path.write_text(json.dumps({"format": _FORMAT, "version": VERSION, "tensors": places, "state": tree}))


def read_state(path: Path, device: torch.device) -> Mapping[str, object]:
    """What ``write_state`` wrote, or an older file by ``torch.save``, with its tensors on ``device``.

    Raises StoreError for an index of another version and for a shard that is missing.
    """
    with path.open("rb") as file:
        if file.read(2) == b"PK":  # the zip of torch.save
            return dict(torch.load(path, map_location=device, weights_only=True))
    index = json.loads(path.read_text())
    if (index.get("format"), index.get("version")) != (_FORMAT, VERSION):
        raise StoreError(f"'{path}' is of version {index.get('version')}, this turngate reads version {VERSION}")
    tensors: dict[str, torch.Tensor] = {}
    for name in dict.fromkeys(index["tensors"].values()):
        shard = path.with_name(name)
        if not shard.exists():
            raise StoreError(f"'{shard}', a part of '{path}', is missing; restore it from a backup")
        with safe_open(shard, framework="pt", device=str(device)) as opened:
            for place in opened.keys():  # noqa: SIM118 (it is no mapping)
                tensors[place] = opened.get_tensor(place).clone()  # what it returns may be the file itself, mapped
    return dict(_restored(index["state"], tensors))


def _described(value: Any, tensors: list[torch.Tensor]) -> Any:
    """``value`` as JSON, in which every container says what it is; its tensors are added to ``tensors``."""
    if isinstance(value, torch.Tensor):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if isinstance(value, Mapping):
        return {"dict": [[_described(key, tensors), _described(one, tensors)] for key, one in value.items()]}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_described(one, tensors) for one in value]}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise StoreError(f"a learner's state holds {value!r:.80} of type {type(value).__name__}, which cannot be saved")


def _restored(tree: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, inner),) = tree.items()
    if kind == "tensor":
        return tensors[str(inner)]
    if kind == "dict":
        return {_restored(key, tensors): _restored(one, tensors) for key, one in inner}
    found = [_restored(one, tensors) for one in inner]
    return tuple(found) if kind == "tuple" else found


def _cut(sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Consecutive places whose sizes add up to at most ``most``, or a single one that is larger."""
    shard: list[int] = []
    total = 0
    for place, size in enumerate(sizes):
        if shard and total + size > most:
            yield shard
            shard, total = [], 0
        shard.append(place)
        total += size
    if shard:
        yield shard


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, contiguous, in a storage of its own: safetensors refuses tensors that share one."""
    found = tensor.cpu().contiguous()
    return found if found.untyped_storage().nbytes() == found.nbytes else found.clone()
