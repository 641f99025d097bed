"""What every way to branch has in common: a part of the config that says where the trees of a task grow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.parts import Part


class BranchingPart(Part):
    """Where episodes branch off others. It is an ``Expander`` (see ``turngate.agents.tree_rollout``): write ``choose``.

    It keeps nothing between two calls: what it needs to know is in the forest.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "branching"
    values: ClassVar[Literal["paid", "outcome"] | None] = None
    """What it measures for the columns value_N and count_N; None = it measures no values."""
    shares: ClassVar[bool] = True
    """Whether its branches share turns with other episodes."""
    least_turns: ClassVar[int] = 2
    """Turns that the episodes of an environment must be able to have, so that it has an effect."""
    roots: ClassVar[str] = ""
    """The setting that says how many trees a task begins with; "" = always several."""

    @property
    def fills(self) -> frozenset[str]:
        """The columns of the turn table that it measures."""
        return frozenset({"value_N", "count_N"}) if self.values else frozenset()

    @abstractmethod
    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """Where the leaves of the next round begin; None = a tree of its own."""

    def check(self, group_size: int) -> None:
        """Raise ValueError if these settings cannot share out ``group_size`` leaves."""


def check_parts(what: str, group_size: int, first: int, rounds: int = 1) -> None:
    """Raise ValueError unless the leaves that are left after the ``first`` ones can be dealt out evenly.

    They are dealt to ``rounds`` rounds; ``what`` names the settings.
    """
    rest = group_size - first
    if rest < rounds or rest % rounds:
        raise ValueError(
            f"branching: train.group_size {group_size} cannot be shared out by {what}: {rest} leaves are left to "
            f"branch off, which must be a multiple of {rounds} and at least that; change group_size or these settings"
        )
