"""A learner's state on disk: files of tensors, and an index that says how they belong together.

    state.pt                       the index, JSON: containers, numbers and texts, with the tensors' places
    state-00001.safetensors        tensors in the order of the index, at most ``SHARD_BYTES`` of them
    state-00002.safetensors        …

A file that is written in one piece needs all of the state in memory once more, and some file systems and stores take
files of a few GB only. Where several processes hold a part of each tensor, each writes its own, in the format of
``torch.distributed.checkpoint``, and the first of them the index when all have:

    state.pt                       the index, with type and shape of every tensor
    state/__0_0.distcp             the parts of the first process
    state/__1_0.distcp             …
    state/.metadata                which part of which tensor is where

One process or several can read either form.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from turngate.agents.refused_memory import is_out_of_memory
from turngate.errors import StoreError
from turngate.parts import when_used

checkpoint = when_used("torch.distributed.checkpoint")
checkpoint_api = when_used("torch.distributed.checkpoint.api")

SHARD_BYTES = 2_000_000_000
"""Most bytes of tensors in one file; a larger tensor has a file of its own."""
VERSION, DIVIDED = 1, 2
"""Of the index: of one process, and of several."""
_FORMAT = "turngate state"


class Holding(Protocol):
    """How this process holds the tensors of a state that it reads. ``group``: those that read it together."""

    @property
    def group(self) -> dist.ProcessGroup | None:
        """None: this process reads alone."""

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        """What it keeps of a whole tensor."""

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Room for what it keeps of a tensor."""


class Whole:
    """Every tensor whole, on ``device``."""

    group: dist.ProcessGroup | None = None

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device=self.device)


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
            save_file({str(place): _own_storage(tensors[place]) for place in shard}, path.with_name(name))
        except SafetensorError as error:
            raise RuntimeError(str(error)) from error
    places = {str(place): name for name, shard in zip(names, shards, strict=True) for place in shard}
    path.write_text(
        json.dumps({"format": _FORMAT, "version": VERSION, "tensors": places, "state": tree}), encoding="utf-8"
    )


def write_divided(state: Mapping[str, object], path: Path, *, group: dist.ProcessGroup) -> None:
    """As ``write_state``, called in every process of ``group`` at once, with equal states but for the parts of tensors.

    A process writes its own parts, one after the other, so none needs more memory than for one more part. ``path`` is
    written last, by the first process. Raises RuntimeError in all processes if one cannot write.
    """
    tensors: list[torch.Tensor] = []
    tree = _described(state, tensors)
    writer = checkpoint.FileSystemWriter(path.with_suffix(""))
    _in_step(checkpoint.save, {str(n): one for n, one in enumerate(tensors)}, group, storage_writer=writer)
    if dist.get_rank(group) == 0:
        shapes = [[str(one.dtype).removeprefix("torch."), list(one.shape)] for one in tensors]
        path.write_text(
            json.dumps({"format": _FORMAT, "version": DIVIDED, "tensors": shapes, "state": tree}), encoding="utf-8"
        )


def read_state(path: Path, device: torch.device) -> Mapping[str, object]:
    """What ``write_state`` or ``write_divided`` wrote, with its tensors on ``device``; on "meta" they have types and
    shapes only.

    Raises StoreError for another file, and for one of tensors that is missing or cannot be read.
    """
    return read_held(path, Whole(device))


def read_held(path: Path, holding: Holding) -> Mapping[str, object]:
    """The same with tensors as ``holding`` has them; where that has a group, all of it call this at once."""
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise StoreError(f"'{path}' is no state that this turngate wrote; begin the run again") from None
    version = index.get("version")
    if index.get("format") != _FORMAT or version not in (VERSION, DIVIDED):
        raise StoreError(f"'{path}' is of version {version}, this turngate reads versions {VERSION} and {DIVIDED}")
    read = _read_divided if version == DIVIDED else _read_files
    return dict(_restored(index["state"], read(path, index["tensors"], holding)))


def _read_files(path: Path, names: Mapping[str, str], holding: Holding) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for name in dict.fromkeys(names.values()):
        shard = path.with_name(name)
        if not shard.exists():
            raise StoreError(f"'{shard}', a part of '{path}', is missing; restore it from a backup")
        with safe_open(shard, framework="pt", device="cpu") as opened:
            for place in opened.keys():  # noqa: SIM118 (it is no mapping)
                found = holding.take(opened.get_tensor(place))
                tensors[place] = found.clone() if found.device.type == "cpu" else found  # it may be the file, mapped
    return tensors


def _read_divided(path: Path, shapes: Sequence[tuple[str, list[int]]], holding: Holding) -> dict[str, torch.Tensor]:
    tensors = {str(n): holding.empty(shape, getattr(torch, dtype)) for n, (dtype, shape) in enumerate(shapes)}
    folder = path.with_suffix("")
    if not folder.exists():
        raise StoreError(f"'{folder}', with the tensors of '{path}', is missing; restore it from a backup")
    if not all(one.is_meta for one in tensors.values()):
        try:
            _in_step(checkpoint.load, tensors, holding.group, storage_reader=checkpoint.FileSystemReader(folder))
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            raise StoreError(f"'{folder}', with the tensors of '{path}', cannot be read: {error}") from error
    return tensors


def _in_step(function: Any, tensors: Mapping[str, torch.Tensor], group: dist.ProcessGroup | None, **more: Any) -> None:
    """Save or load in all processes of ``group``. Raises RuntimeError with what the first that failed said."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as it is meant without a group
            function(dict(tensors), process_group=group, no_dist=group is None, **more)
    except checkpoint_api.CheckpointException as error:  # no Exception, which few would catch
        rank, (cause, _) = min(error.failures.items())
        where = "" if group is None else f"rank {rank}: "
        raise RuntimeError(f"{where}{type(cause).__name__}: {cause}") from cause


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


def _own_storage(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, contiguous, in a storage of its own: safetensors refuses tensors that share one."""
    found = tensor.cpu().contiguous()
    return found if found.untyped_storage().nbytes() == found.nbytes else found.clone()
