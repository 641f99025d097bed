"""Atomic writes, the lock of a writer, and the description of the machine that a run was made on."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

from turngate.images import image_format
from turngate.store.folder import writing
from turngate.types import JSON, storable

_PACKAGES = (
    "turngate",
    "numpy",
    "pyarrow",
    "gymnasium",
    "pydantic",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "peft",
    "vllm",
)


def write_image(image: bytes, folder: Path, name: str) -> Path:
    """Write an image as it is into ``folder``, which is made, with the ending of its format. Raises WriteError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{image_format(image) or 'bin'}"
    write_atomic(path, lambda file: file.write(image))
    return path


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write a text file, made ``storable``; after a crash or a power cut it has either its old or its new content.
    Makes the folder.

    Raises WriteError.
    """
    with writing(Path(path)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(path), lambda file: file.write(storable(text).encode()))


def write_json_atomic(path: str | Path, data: Mapping[str, object]) -> None:
    """``data`` as indented JSON, written as ``write_text_atomic`` does."""
    write_text_atomic(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def machine() -> dict[str, JSON]:
    """Facts that may explain a different result on another machine: Python, platform, cores, package versions and the
    commit of turngate's own checkout, with "-dirty" behind it where files differ from it.

    The version of a package that is not installed is None, and so is a commit that is not known. Names of hosts, users
    and folders are left out.
    """
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "cpu_count": os.cpu_count(),
        "packages": {name: _installed(name) for name in _PACKAGES},
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of the checkout that this code is part of; None for an installed package, or without git."""
    here = Path(__file__)
    try:
        _git(here.parent, "ls-files", "--error-unmatch", here.name)  # fails where only a folder above is a checkout
        return _git(here.parent, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def write_atomic(final: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file beside ``final``, then sync and rename it. On an error it is removed.

    Raises WriteError.
    """
    # Readers of the folder skip names with a leading dot; the thread's number keeps two writers of one process apart.
    temporary = final.with_name(f".{final.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    with writing(final):
        try:
            with temporary.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(final)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(final.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a deletion in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(folder: Path) -> None:
    """Make the contents of the files in ``folder`` survive a power cut, before it is renamed."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_folder(folder)


@contextmanager
def locked(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder for writing; yields whether that succeeded, which without ``wait`` it may not.

    The system frees the lock when the process dies.
    """
    with (folder / ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
