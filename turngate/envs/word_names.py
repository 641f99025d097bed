"""Names that are two words of a short list, for models that cannot copy a name piece by piece yet.

A whole name belongs to training or to the held-out split by its hash; its words occur in both.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, TypeAlias

from turngate.envs.tasks import split_of

Naming: TypeAlias = Literal["made", "words"]
HELD_OUT = 4
"""One name in so many belongs to the held-out split."""
FIRST_WORDS = (
    "amber birch cedar copper coral dawn ember fern flint frost grey hazel iron ivory jade larch maple marsh moss "
    "north oak olive pearl pine quartz reed rose rust sage silver slate south stone teal thorn west willow winter"
).split()
LAST_WORDS = (
    "bank bay bell bend bridge brook cliff cove crest cross dale dell field ford gate glen grove hall harbour heath "
    "hill hollow lake lane ledge mead mill moor pass peak point pool ridge rock shore spring vale view well wood yard"
).split()


def belongs(name: str, split: str) -> bool:
    """Whether a name is one of ``split``: "heldout", or any other."""
    return (split_of(name, HELD_OUT) == "heldout") == (split == "heldout")


@cache
def word_names(split: str) -> tuple[str, ...]:
    """All names of two words that belong to a split, such as "Fern Mill", in a fixed order."""
    names = (f"{first} {last}".title() for first in FIRST_WORDS for last in LAST_WORDS)
    return tuple(name for name in names if belongs(name, split))
