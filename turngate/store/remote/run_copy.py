"""A copy of a stored run, for commands that read it: only files that changed since the last time are fetched."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from turngate.errors import ConfigError
from turngate.foreign import described
from turngate.store.files import write_json_atomic
from turngate.store.folder import RunFolder
from turngate.store.remote.manifest import NOTHING, Manifest, StoredFile, files_from, newest_manifest
from turngate.store.remote.object_store import ObjectStore, local_path_of
from turngate.store.remote.transfer import download, with_newest

_WEIGHTS = (".safetensors", ".pt", ".distcp", ".bin")
_DEPTH = 4
"""Folders between a run and what is named in it, at most: stages/01-NAME/controls/NAME."""


@contextmanager
def open_copy(address: str, copies: Path, *, weights: bool) -> Iterator[Path]:
    """The folder of a copy below ``copies``; no other process brings it to a newer state in the block.

    ``address`` is that of a run, or of a folder in one. ``weights``: fetch the weights of models and checkpoints too.
    Raises ConfigError where no run is or the store does not answer, StoreError for what is damaged in it.
    """
    try:
        store, inner = _store_of(address)
        folder = copies / local_path_of(store.address)
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("ab")
        _bring_up_to_date(store, RunFolder(folder), lock, weights=weights)
    except OSError as error:
        raise ConfigError(f"'{address}' cannot be read: {described(error)}") from error
    with lock:
        yield folder / inner


def _store_of(address: str) -> tuple[ObjectStore, PurePosixPath]:
    """The store of the run that the address is of or in, and the path in it. Raises ConfigError, OSError."""
    inner = PurePosixPath()
    at = address.rstrip("/")
    for _ in range(_DEPTH + 1):
        store = ObjectStore(at)
        if newest_manifest(store) != NOTHING:
            return store, inner
        at, _, name = at.rpartition("/")
        inner = name / inner
        if at.endswith(":/") or not at:
            break
    raise ConfigError(f"no run is stored at '{address}'; name it as turngate train --folder did, with /NAME behind it")


def _bring_up_to_date(store: ObjectStore, copy: RunFolder, lock: BinaryIO, *, weights: bool) -> None:
    """Fetch what differs from the newest state, with the lock alone; afterwards others that read it share the lock."""

    def update(newest: Manifest) -> None:
        wanted = {name: file for name, file in newest.files.items() if weights or not name.endswith(_WEIGHTS)}
        fcntl.flock(lock, fcntl.LOCK_SH)
        if wanted.items() <= _files_of(copy).items() <= newest.files.items():
            return
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits until no other command reads the older state
        there = _files_of(copy)
        kept = {name: file for name, file in there.items() if newest.files.get(name) == file}
        _remember(copy, kept)  # before anything else: the process may be killed
        for name in there.keys() - kept.keys():
            (copy.path / name).unlink(missing_ok=True)
        download(store, {name: file for name, file in wanted.items() if name not in kept}, copy.path)
        _remember(copy, {**kept, **wanted})
        fcntl.flock(lock, fcntl.LOCK_SH)

    with_newest(store, update)


def _files_of(copy: RunFolder) -> Mapping[str, StoredFile]:
    """The files that were fetched and are still here."""
    try:
        known = files_from(json.loads(copy.stored.read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {name: file for name, file in known.items() if (copy.path / name).is_file()}


def _remember(copy: RunFolder, files: Mapping[str, StoredFile]) -> None:
    write_json_atomic(copy.stored, {"files": {name: asdict(file) for name, file in files.items()}})
