"""Objects under an address of fsspec, such as ``s3://bucket/runs/NAME``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turngate.errors import ConfigError, MissingExtra
from turngate.foreign import described

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+):/+(.+)")
_HERE = ("file", "local")


def address_of(path: str | Path) -> str | None:
    """``PROTOCOL://REST`` where that was written, also if a Path has made one slash of the two; else None."""
    found = _ADDRESS.fullmatch(str(path))
    return f"{found[1]}://{found[2]}" if found else None


def local_path_of(address: str) -> Path:
    """The same place below a folder of this machine: ``s3/bucket/runs`` for ``s3://bucket/runs``."""
    protocol, _, rest = address.partition("://")
    return Path(protocol, *rest.split("/"))


class ObjectStore:
    """The objects whose names begin with an address.

    The constructor sends nothing. It raises MissingExtra, and ConfigError for an address that fsspec cannot open. The
    methods raise OSError where the store does not answer, or refuses.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._fs, self._root = _opened(address)

    def list_names(self, folder: str) -> list[str]:
        """The names in a folder, without it; [] if it does not exist."""
        with _as_os_error():
            try:
                found = self._fs.ls(f"{self._root}/{folder}", detail=False)
            except FileNotFoundError:
                return []
        return sorted(str(path).rsplit("/", 1)[-1] for path in found)

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        """The objects of these names, in this order; None for one that does not exist."""
        paths = [f"{self._root}/{name}" for name in names]
        with _as_os_error():
            found: Mapping[str, object] = self._fs.cat(paths, on_error="return")
            return [_content(found[path]) for path in paths]

    def write(self, objects: Mapping[str, bytes]) -> None:
        """Write objects by name; each is there as a whole or not at all."""
        with _as_os_error():
            self._fs.pipe({f"{self._root}/{name}": data for name, data in objects.items()})

    def create(self, name: str, data: bytes) -> bool:
        """Write an object, unless one of that name exists; returns whether it was written."""
        with _as_os_error():
            try:
                self._fs.pipe_file(f"{self._root}/{name}", data, mode="create")
            except FileExistsError:
                return False
        return True

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects."""
        if names:
            with _as_os_error():
                self._fs.rm([f"{self._root}/{name}" for name in names])


def _opened(address: str) -> tuple[Any, str]:
    """The file system of fsspec and the address without protocol."""
    protocol, _, rest = address.partition("://")
    if protocol in _HERE:
        raise ConfigError(f"'{address}' is a folder of this machine; write its path, without '{protocol}:'")
    if ".." in rest.split("/"):
        raise ConfigError(f"'{address}' has '..' in it; write the address without it")
    try:
        import fsspec
    except ImportError:
        raise MissingExtra("fsspec", "storage") from None
    try:
        fs, root = fsspec.url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        if protocol in ("s3", "s3a"):
            raise MissingExtra("s3fs", "storage") from None
        raise ConfigError(f"'{address}' cannot be opened: {error}") from error
    except ValueError as error:
        known = "known are s3:// and what other packages give fsspec, such as gs:// of gcsfs"
        raise ConfigError(f"'{address}' cannot be opened: {error}; {known}") from error
    return fs, str(root).rstrip("/")


def _content(found: object) -> bytes | None:
    if isinstance(found, FileNotFoundError):
        return None
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, bytes)
    return found


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise what libraries of stores raise, which may be anything, as an OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise ConnectionError(described(error)) from error
