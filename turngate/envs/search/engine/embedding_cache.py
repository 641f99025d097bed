"""Vectors of texts on disk, so that no text is encoded twice by the same encoder."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError

Vectors = npt.NDArray[np.float32]
_DIGEST_BYTES = 16


def vectors_on_disk(
    folder: Path, made_by: str, texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors]
) -> Vectors:
    """float32[N, D]: the vectors of ``texts``, from the file of ``made_by`` in ``folder`` where they are in it.

    ``made_by``: the encoder and its settings; each has a file of its own. The file holds the vectors of the last texts
    only. It is replaced as a whole, so two processes may do this at once; one that cannot be read is made again. Raises
    ConfigError for a folder that cannot be written to.
    """
    file = folder / f"vectors-{_digest(made_by).hex()}.npz"
    known = _read(file)
    digests = [_digest(text) for text in texts]
    new = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in known}
    if new:
        known |= dict(zip(new, encode(list(new.values())), strict=True))
    vector_ND = np.stack([known[digest] for digest in digests])
    if len(known) > len(set(digests)) or new:
        _write(file, digests, vector_ND)
    return vector_ND


def _read(file: Path) -> dict[bytes, Vectors]:
    try:
        with np.load(file, allow_pickle=False) as kept:
            digests, vectors = kept["digests"], kept["vectors"]
            return {digest.tobytes(): vector for digest, vector in zip(digests, vectors, strict=True)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return {}


def _write(file: Path, digests: Sequence[bytes], vector_ND: Vectors) -> None:
    digest_NB = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, _DIGEST_BYTES)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
            try:
                np.savez(part, digests=digest_NB, vectors=vector_ND)
                part.close()
                os.replace(part.name, file)
            except BaseException:
                Path(part.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ConfigError(f"retriever.folder: the vectors cannot be kept at '{file}': {error}") from error


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).digest()
