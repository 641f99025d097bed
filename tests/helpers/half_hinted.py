"""A guide that tells every other sibling a key in its second turn, which learning does not see."""

from typing import Literal

from turngate.trainer.guidance.base import Guide, GuidePart, Helpers
from turngate.trainer.guidance.plan import Plan
from turngate.types import Guidance, Task

HINT = Guidance(kind="fact", level=1, text="red is a", source="env", insert_turn=1, strip_for_train=True)


class HalfHinted(GuidePart):
    """Every other sibling is told a key."""

    type: Literal["half_hinted"] = "half_hinted"
    strip: bool = True
    """Whether learning leaves the hint out."""

    def open(self, helpers: Helpers) -> Guide:
        class Half(Guide):
            def plan(self, task: Task, group_size: int) -> Plan:
                return Plan(entries=[HINT, None] * (group_size // 2))

        return Half()
