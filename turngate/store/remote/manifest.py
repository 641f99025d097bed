"""Manifests: which files a stored run has after a commit, and which objects they are made of."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from turngate.errors import StoreError
from turngate.store.remote.object_store import ObjectStore

MANIFESTS, OBJECTS = "manifests", "objects"
_ATTEMPTS = 10  # a writer may replace a manifest between listing and reading


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file: its size in bytes, and the SHA-256 of each of its parts, of which there is at least one."""

    size: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A state of the run. ``generation`` counts the commits from 1; ``commit`` is unique among all runs and machines.
    ``writer`` names the process that works on the run, "" if that has closed it. ``files``: by their paths in the run's
    folder."""

    generation: int
    commit: str
    writer: str
    files: Mapping[str, StoredFile]

    @property
    def name(self) -> str:
        """The name of its object."""
        return f"{MANIFESTS}/{self.generation:08d}.json"

    @property
    def parts(self) -> set[str]:
        """The SHA-256 of every object that it names."""
        return {part for file in self.files.values() for part in file.parts}

    def following(self, *, writer: str, files: Mapping[str, StoredFile]) -> Manifest:
        """The next state."""
        return Manifest(generation=self.generation + 1, commit=uuid.uuid4().hex, writer=writer, files=files)

    def to_bytes(self) -> bytes:
        """As JSON."""
        files = {name: asdict(file) for name, file in self.files.items()}
        known = {"generation": self.generation, "commit": self.commit, "writer": self.writer, "files": files}
        return json.dumps(known, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """What ``to_bytes`` gave. Raises ValueError for anything else, also for a file outside the run's folder."""
        try:
            known = json.loads(data)
            files = files_from(known["files"])
            return cls(
                generation=int(known["generation"]),
                commit=str(known["commit"]),
                writer=str(known["writer"]),
                files=files,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a manifest: {error!r}") from error


NOTHING = Manifest(generation=0, commit="", writer="", files={})
"""What there is before the first commit."""


def files_from(known: Mapping[str, Mapping[str, object]]) -> dict[str, StoredFile]:
    """The files of JSON. Raises ValueError for a path that leads out of the run's folder, KeyError, TypeError."""
    files = {}
    for name, file in known.items():
        path, parts, size = PurePosixPath(name), file["parts"], file["size"]
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"'{name}' is not the path of a file in the run")
        if not (isinstance(parts, list) and parts and isinstance(size, int)):
            raise ValueError(f"'{name}' has no parts")
        files[name] = StoredFile(size=size, parts=tuple(map(str, parts)))
    return files


def newest_manifest(store: ObjectStore) -> Manifest:
    """The last state that was committed; ``NOTHING`` if there is none.

    Raises StoreError for a manifest that cannot be read, and OSError.
    """
    for _ in range(_ATTEMPTS):
        names = store.list_names(MANIFESTS)
        if not names:
            return NOTHING
        name = f"{MANIFESTS}/{names[-1]}"
        (data,) = store.read([name])
        if data is None:
            continue
        try:
            return Manifest.from_bytes(data)
        except ValueError as error:
            raise StoreError(f"'{store.address}/{name}' is damaged ({error}); restore it from a backup") from error
    raise StoreError(f"'{store.address}/{MANIFESTS}' changes faster than it can be read; try once more")
