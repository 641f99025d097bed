"""Each part of a config says itself whether it fits the rest of the config: see ``Part.check_config``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel

from turngate.errors import ConfigError
from turngate.part_calls import call_part, ignored
from turngate.parts import Part

if TYPE_CHECKING:
    from turngate.config import Config


def check_parts(config: Config) -> None:
    """Ask every part of ``config``. Raises ConfigError, and PartError for a user's part whose check breaks.

    The learner is asked last: it refuses what it cannot learn from, and that first says whether it would fit at all.
    """
    for key, part in sorted(_parts_in(config), key=lambda found: found[0] == "learner"):
        try:
            call_part(part.noun, part.check_config, config, take=ignored, must="nothing")
        except ConfigError as error:
            raise ConfigError(_with_key(str(error), key, part)) from error


def _parts_in(value: object, key: str = "") -> Iterator[tuple[str, Part]]:
    """Every part with its key, as in ``env[0].rubric.gates[1]``; a part comes before the parts among its settings."""
    if isinstance(value, Part):
        yield key, value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _parts_in(getattr(value, name), f"{key}.{name}" if key else name)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _parts_in(item, f"{key}.{name}")
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _parts_in(item, f"{key}[{place}]")


def _with_key(said: str, key: str, part: Part) -> str:
    """The message, with the key of the part if it names neither that nor the part's type."""
    alone = re.sub(r"\[\d+\]", "", key)
    return said if alone in said or f"'{part.type}'" in said else f"{key}: {said}"
