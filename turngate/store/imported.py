"""``imported.json``: where the episodes of an imported log come from, and how much is known of their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turngate.errors import DataError
from turngate.jsonl import read_json
from turngate.store.files import write_json_atomic
from turngate.store.folder import RunFolder
from turngate.store.formats.read_episode import KnownTokens

WORDS: Mapping[str, str] = {
    KnownTokens.SAMPLED: "with the ids that were sampled and the sampler's log-probabilities",
    KnownTokens.IDS: "with the ids that were sampled, without log-probabilities",
    KnownTokens.TEMPLATE: "with ids that a chat template made of the texts: nobody sampled them, so they have no "
    "log-probabilities",
    KnownTokens.NONE: "without token ids and log-probabilities",
}


@dataclass(frozen=True, kw_only=True)
class Imported:
    """``tokens``: number of episodes by how much is known of their tokens. ``temperature``: at which they were sampled,
    if the caller said so. ``tokenizer``: which made ids of texts. ``left_out``: records that were left out, with the
    reason; ``left_behind``: fields that the format has and the store does not, and in how many records."""

    format: str
    files: tuple[str, ...]
    turngate: str
    tokens: dict[str, int]
    temperature: float | None = None
    tokenizer: str = ""
    left_out: tuple[str, ...] = ()
    left_behind: dict[str, int]

    @property
    def about_tokens(self) -> str:
        """How much is known of the tokens, in words."""
        return "; ".join(f"{count} episodes {WORDS[name]}" for name, count in self.tokens.items())

    @property
    def has_logprobs(self) -> bool:
        """Whether every episode has the sampler's log-probabilities."""
        return set(self.tokens) == {KnownTokens.SAMPLED.value}


def write_imported(run: RunFolder, told: Imported) -> None:
    """Write it into a folder."""
    write_json_atomic(run.imported, asdict(told))


def read_imported(run: RunFolder) -> Imported:
    """Read it. Raises DataError."""
    value: Any = read_json(run.imported)
    try:
        return TypeAdapter(Imported).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(run.imported, f"{first['msg']} ({'.'.join(map(str, first['loc']))})") from error
