"""Guides that let a solution act first and the policy go on from there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import all_failed, n_unguided, rates_by_level
from turngate.trainer.guidance.solutions import SOLUTIONS, solution_of
from turngate.types import Guidance, ScoredGroup, Task

if TYPE_CHECKING:
    from turngate.config import Config

PREFIX = "prefix"
"""Kind of the guidance of an episode whose first turns are those of a solution; its level is how many."""


def prefix(solution: Sequence[str], n: int, *, joins: bool = False) -> PrefixTurns | None:
    """The first ``n`` turns of a solution, but never the last one; None = no turn is left of that."""
    n = min(n, len(solution) - 1)
    if n < 1:
        return None
    guidance = Guidance(kind=PREFIX, level=n, text="", source="oracle", joins=joins)
    return PrefixTurns(turns=tuple(solution[:n]), guidance=guidance)


# --- levels side by side ---------------------------------------------------------------------------------------------


class StepHintPart(GuidePart):
    """StepHint: in every group some siblings begin after a part of a solution, each part with siblings of its own, and
    the others at the start.

    Prefixes of ``ceil(K·i/parts)`` turns, i = 1 … parts − 1, of a solution of K turns. Every prefix has a baseline of
    its own, since one over different starts would be too high for those without one. Source:
    https://arxiv.org/abs/2507.02841, which cuts a text where its steps end; the steps here are turns.
    """

    type: Literal["stephint"] = "stephint"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    parts: int = Field(3, ge=2)
    """Parts that a solution is cut into; one prefix fewer than that. A short solution has fewer."""
    siblings: int = Field(2, ge=2)
    """Siblings that begin after each prefix; they are compared with each other."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        guided = self.siblings * (self.parts - 1)
        if guided > group_size / 2:
            raise ConfigError(
                f"guide: {self.parts - 1} prefixes with {self.siblings} siblings each are {guided} of {group_size} "
                "siblings; at most half may have one, or the start is not practised: lower guide.parts or raise "
                "train.group_size"
            )

    def open(self, helpers: Helpers) -> StepHint:
        """The guide of one run."""
        return StepHint(helpers, self)


def cuts(n_turns: int, parts: int) -> list[int]:
    """Lengths of the prefixes of a solution, ascending and different, each in [1, n_turns − 1]."""
    found = {math.ceil(n_turns * i / parts - 1e-9) for i in range(1, parts)}
    return sorted(n for n in found if 1 <= n < n_turns)


class StepHint(Guide):
    """What ``StepHintPart`` opens."""

    def __init__(self, helpers: Helpers, part: StepHintPart) -> None:
        self._helpers, self._part = helpers, part

    def plan(self, task: Task, group_size: int) -> Plan:
        """The siblings with a prefix first, from the shortest to the longest."""
        solution = solution_of(self._helpers, task)
        guided: list[Entry] = [
            prefix(solution, n) for n in cuts(len(solution), self._part.parts) for _ in range(self._part.siblings)
        ]
        return Plan(entries=[*guided, *[None] * (group_size - len(guided))])


# --- the shortest that helps -----------------------------------------------------------------------------------------


class BreadPart(GuidePart):
    """BREAD: where all siblings fail, the shortest prefix of a solution is searched after which one succeeds.

    A binary search over 1 … K − 1 turns, a whole group for each probe; it takes for granted that a longer prefix never
    helps less. All probed groups are kept, each with a baseline of its own; the filter "varied" drops those without a
    difference. Source: https://arxiv.org/abs/2506.17211; the search is reconstructed.
    """

    type: Literal["bread"] = "bread"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS

    def open(self, helpers: Helpers) -> Bread:
        """The guide of one run."""
        return Bread(helpers)


def next_probe(n_turns: int, probed: Mapping[int, bool]) -> int | None:
    """The length to probe next in a binary search over 1 … ``n_turns`` − 1; None = the search is over.

    ``probed`` says after which lengths there was a success. If success is monotone in the length, the shortest one
    with a success is the least probed one, after at most ⌈log₂(n_turns − 1)⌉ + 1 probes.
    """
    low, high = 1, n_turns - 1
    while low <= high:
        middle = (low + high) // 2
        if middle not in probed:
            return middle
        low, high = (low, middle - 1) if probed[middle] else (middle + 1, high)
    return None


class Bread(Guide):
    """What ``BreadPart`` opens."""

    def __init__(self, helpers: Helpers) -> None:
        self._helpers = helpers

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """The next probe of the search, if no episode succeeded without a prefix."""
        solution = solution_of(self._helpers, group.task)
        if any(rates_by_level(group, None).values()) or (wave == 1 and not all_failed(group)):
            return None
        probed = {level: rate > 0 for level, rate in rates_by_level(group, PREFIX).items()}
        length = next_probe(len(solution), probed) if wave == len(probed) + 1 else None
        begun = prefix(solution, length) if length is not None else None
        return None if begun is None else Plan(entries=[begun] * n_unguided(group.trajectories), into="own")


# --- always as long --------------------------------------------------------------------------------------------------


class OraclePrefixPart(GuidePart):
    """Half of the siblings begin after the first turns of a solution, always equally many; the others at the start."""

    type: Literal["oracle_prefix"] = "oracle_prefix"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    turns: int = Field(1, ge=1)
    """Turns that the solution takes; one fewer than it has at most."""

    def check_config(self, config: Config) -> None:
        need_four(config.train.group_size)

    def open(self, helpers: Helpers) -> OraclePrefix:
        """The guide of one run."""
        return OraclePrefix(helpers, self)


class OraclePrefix(Guide):
    """What ``OraclePrefixPart`` opens."""

    def __init__(self, helpers: Helpers, part: OraclePrefixPart) -> None:
        self._helpers, self._part = helpers, part

    def plan(self, task: Task, group_size: int) -> Plan:
        """The siblings with a prefix first."""
        return half_begun(prefix(solution_of(self._helpers, task), self._part.turns), group_size)


def half_begun(begun: PrefixTurns | None, group_size: int) -> Plan:
    """Half of the siblings begin after the prefix, the others at the start; all of them without a prefix."""
    guided = group_size // 2
    return Plan(entries=[*[begun] * guided, *[None] * (group_size - guided)])


def need_four(group_size: int) -> None:
    """Raise ConfigError for a group whose half is one sibling, which would have none to be compared with."""
    if group_size < 4:
        raise ConfigError(
            f"guide: half of {group_size} siblings begin after a prefix and are compared with each other, so "
            "train.group_size must be at least 4"
        )
