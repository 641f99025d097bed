"""Guides without help: they choose how many episodes a task is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import success_rate
from turngate.types import ScoredGroup, Task

if TYPE_CHECKING:
    from turngate.config import Config


class SpeedPart(GuidePart):
    """SPEED: a few siblings of every task play first; the others only if some of those succeeded and some failed.

    A task with success rate p is played on with probability ``1 − pⁿ − (1 − p)ⁿ``. All siblings are learned from. The
    first ones are chosen by their own results, which biases their mean a little. Source:
    https://arxiv.org/abs/2506.09016 and its code, with 4 to 8 first and 12 to 16 more; there the second part of a step
    is played together with the first of the next one.
    """

    type: Literal["speed"] = "speed"
    first: int = Field(4, ge=2)
    """Siblings that play first; the rest of train.group_size follows."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if self.first >= group_size:
            raise ConfigError(f"guide.first is {self.first}, which leaves no more of {group_size} siblings to play on")

    def open(self, helpers: Helpers) -> Speed:
        """The guide of one run."""
        return Speed(self)


class Speed(Guide):
    """What ``SpeedPart`` opens."""

    def __init__(self, part: SpeedPart) -> None:
        self._part, self._size = part, part.first

    def plan(self, task: Task, group_size: int) -> Plan:
        """The first siblings."""
        self._size = group_size
        return Plan(entries=[None] * self._part.first)

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """The rest, if the first ones differ."""
        rate = success_rate(group.scores)
        if wave > 1 or rate is None or rate in (0.0, 1.0):
            return None
        return Plan(entries=[None] * (self._size - self._part.first))
