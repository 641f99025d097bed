"""What every way to branch has in common: a part of the config that says where the trees of a task grow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from turngate.agents.branches import Fork
from turngate.agents.tree_rollout import Forest
from turngate.errors import ConfigError
from turngate.parts import Part

if TYPE_CHECKING:
    from turngate.config import Config


class BranchingPart(Part):
    """Where episodes branch off others. It is an ``Expander`` (see ``turngate.agents.tree_rollout``): write ``choose``.

    It keeps nothing between two calls: what it needs to know is in the forest.
    """

    types: ClassVar[dict[str, type[Part]]] = {}
    noun: ClassVar[str] = "branching"
    shipped_in: ClassVar[tuple[str, ...]] = ("turngate.trainer.branching",)
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

    def check_size(self, group_size: int) -> None:
        """Raise ConfigError if these settings cannot share out ``group_size`` leaves."""

    def check_config(self, config: Config) -> None:
        """Raise ConfigError where the rest of the run makes the trees useless, or measures their values otherwise."""
        name, fills = self.type, self.fills
        if fills and config.guide.branches:
            raise ConfigError(
                f"branching '{name}' cannot be used with guide '{config.guide.type}': its retries leave episodes as "
                "continuations do, but they are helped, so the values would be those of helped play. Use another "
                "guide, or a branching that measures no values, such as tree_grpo"
            )
        self.check_size(config.train.group_size)
        if self.roots and getattr(self, self.roots) < 2 and not config.learns_from_one_tree():
            raise ConfigError(
                f"branching '{name}' with {self.roots} = 1 grows one tree, and credit '{config.credit.type}' compares "
                f"siblings: a first turn that all of them share would teach nothing. Set branching.{self.roots} to 2 "
                "or more, or use a rule that needs no siblings, such as returns with baseline = 'none', or turn_gae"
            )
        if fills and config.value is not None:
            raise ConfigError(
                f"value_N would be measured twice, by a critic and by branching '{name}'; leave [value] out"
            )
        if fills and not fills & config.columns:
            raise ConfigError(
                f"branching '{name}' has no effect beyond that of tree_grpo: credit '{config.credit.type}' reads "
                "neither value_N nor count_N; use a rule that does, such as turn_gae or progress with read = 'value'"
            )


def check_parts(what: str, group_size: int, first: int, rounds: int = 1) -> None:
    """Raise ConfigError unless the leaves that are left after the ``first`` ones can be dealt out evenly.

    They are dealt to ``rounds`` rounds; ``what`` names the settings.
    """
    rest = group_size - first
    if rest < rounds or rest % rounds:
        raise ConfigError(
            f"branching: train.group_size {group_size} cannot be shared out by {what}: {rest} leaves are left to "
            f"branch off, which must be a multiple of {rounds} and at least that; change group_size or these settings"
        )
