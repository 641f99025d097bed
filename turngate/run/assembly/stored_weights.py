"""The weights of a model as they lie on the disk, read from the heads of their files alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from turngate.agents.gguf_file import unpacked
from turngate.agents.protocols import LanguageModel
from turngate.errors import ConfigError, DataError
from turngate.jsonl import read_json

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """Number of files, their bytes, and the formats of the numbers (BF16, F32, …), which are not known of files in
    torch's own format, ``.bin``."""

    files: int
    size: int
    formats: tuple[str, ...]


def stored_weights(name: str, outline: LanguageModel) -> StoredWeights | None:
    """The weights of a folder, or of a name of the hub as far as it was downloaded; None: there are none here yet.

    Raises ConfigError for a folder without weights, for a file that is missing or cut off, and where they are fewer or
    of other sizes than those of ``outline``, the model that its ``config.json`` describes.
    """
    folder = Path(unpacked(name))
    if not folder.is_dir():
        found = _downloaded(name)
        if found is None:
            return None
        folder = found
    paths = list(_files(name, folder))
    heads = [_head(path) for path in paths if path.suffix == ".safetensors"]
    if heads:
        _check(name, {tensor: prod(one["shape"]) for head in heads for tensor, one in head.items()}, outline)
    formats = Counter(one["dtype"] for head in heads for one in head.values())
    return StoredWeights(
        files=len(paths),
        size=sum(path.stat().st_size for path in paths),
        formats=tuple(name for name, _ in formats.most_common()),
    )


def _check(name: str, stored: Mapping[str, int], outline: LanguageModel) -> None:
    """Compare numbers of numbers. Names may differ: transformers renames and joins some weights when it loads them."""
    own = {tensor: int(weight.numel()) for tensor, weight in outline.named_parameters()}
    other = next((tensor for tensor, size in own.items() if stored.get(tensor, size) != size), None)
    if other is not None:
        raise ConfigError(
            f"the weights of the model '{name}' are not those that its config.json describes: '{other}' has "
            f"{stored[other]:,} numbers, not {own[other]:,}; copy config.json and the weights from the same model"
        )
    if (lacking := sum(own.values()) - sum(stored.values())) > 0:
        raise ConfigError(
            f"the model '{name}' lacks {lacking:,} of the {sum(own.values()):,} weights that config.json describes; "
            "copy every file of it"
        )


def _downloaded(name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(name, file) for file in (ONE, INDEX))
    return next((Path(one).parent for one in found if isinstance(one, str)), None)


def _files(name: str, folder: Path) -> Iterator[Path]:
    if (folder / ONE).exists():
        yield folder / ONE
    elif (folder / INDEX).exists():
        parts = _named_parts(folder / INDEX)
        for part in parts:
            if not (folder / part).exists():
                raise ConfigError(f"the model '{name}' lacks '{part}', which {INDEX} names; copy every file of it")
            yield folder / part
    elif older := sorted(folder.glob("pytorch_model*.bin")):
        yield from older
    else:
        raise ConfigError(f"the model '{name}' has no weights ({ONE}, or {INDEX} and its parts); copy them beside it")


def _named_parts(index: Path) -> list[str]:
    """The files that an index names. Raises DataError."""
    found: Any = read_json(index)
    try:
        return sorted({str(part) for part in found["weight_map"].values()})
    except (TypeError, KeyError, AttributeError) as error:
        raise DataError(index, f"is no index of weights: {error!r}") from error


def _head(path: Path) -> Mapping[str, Any]:
    """Format, shape and place of every tensor of a file. Raises ConfigError for one that ends too early."""
    with path.open("rb") as file:
        try:
            head: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            head.pop("__metadata__", None)
            ends = max(one["data_offsets"][1] for one in head.values())
            whole = file.tell() + ends <= path.stat().st_size
        except (
            ValueError,
            OverflowError,
            MemoryError,
            RecursionError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
        ):
            whole = False
    if not whole:
        raise ConfigError(f"the weights in '{path}' are damaged or cut off; copy the file again")
    return head
