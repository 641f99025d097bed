"""A guide for runs of tests, named by its path in a config."""

from turngate.agents.prefix_turns import PrefixTurns
from turngate.trainer.guidance.base import Guide, GuidePart
from turngate.trainer.guidance.plan import Plan
from turngate.types import Guidance


class HelpsOne(GuidePart):
    """One sibling gets the hint of a level, and the last one begins with a turn of the oracle."""

    level: int = 1
    """Which hint."""

    def open(self, helpers):
        return HelpsOneGuide(helpers, self.level)


class HelpsOneGuide(Guide):
    def __init__(self, helpers, level):
        self.helpers, self.level = helpers, level

    def plan(self, task, group_size):
        assert self.level <= self.helpers.hint_levels(task)
        text = self.helpers.hint(task, self.level)
        hint = Guidance(kind="hint", level=self.level, text=text, source="env") if text else None
        first = tuple(self.helpers.solutions(task)[0][:1])
        prefix = PrefixTurns(turns=first, guidance=Guidance(kind="prefix", level=1, text="", source="oracle"))
        return Plan(entries=[hint, *[None] * (group_size - 2), prefix])
