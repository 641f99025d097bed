"""What a branching of a config that is not validated yet decides about other settings."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.trainer.branching.base import BranchingPart


def fills_values(data: Mapping[str, object]) -> bool:
    """Whether the branching of a config that is not validated yet measures values, so that no critic is needed."""
    try:
        return bool(BranchingPart.load(data["branching"]).fills)
    except (KeyError, ValueError):  # none, or validation reports it
        return False
