"""What a guide answers: which episodes get which help in the next wave, and where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from turngate.agents.prefix_turns import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One wave of one task: an episode for each of ``entries``.

    ``into``: "same" adds them to the group of the task, "own" makes them a group of their own beside it, and "replace"
    puts the best of them into ``row`` of the group (None: the worst unguided row), if it is better than that row.
    """

    entries: Sequence[Entry]
    into: Literal["same", "own", "replace"] = "same"
    row: int | None = None
