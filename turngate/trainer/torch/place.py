"""Which process of a run this is, where ``torchrun`` started several. No torch."""

from __future__ import annotations

import os
from dataclasses import dataclass

COMMAND = "torchrun --nproc-per-node 2 -m turngate train CONFIG"
"""How a run of several processes is started, for error messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This process among those that ``torchrun`` started, counted from 0; ``local`` counts on this machine only."""

    rank: int
    size: int
    local: int
    local_size: int

    @property
    def words(self) -> str:
        """The process as an error message names it."""
        return f"rank {self.rank} of {self.size}"


def place() -> Place | None:
    """The place of this process; None where ``torchrun`` did not start it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    names = {"rank": "RANK", "size": "WORLD_SIZE", "local": "LOCAL_RANK", "local_size": "LOCAL_WORLD_SIZE"}
    return Place(**{field: int(os.environ[variable]) for field, variable in names.items()})
