"""Slides as ``tasks`` of ``turngate/Web-v1``: ``tasks = {type = "slides", levels = [1]}``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from turngate.envs.tasks import TaskSource, TaskSourcePart


class SlideSource(TaskSourcePart):
    """Endless slides that the agent writes as HTML. Splits: train and heldout (other subjects, names and places)."""

    type: Literal["slides"] = "slides"
    kind: ClassVar[str] = "web tasks"
    levels: tuple[Literal[1, 2, 3], ...] = Field((1, 2, 3), min_length=1)
    """Difficulties: 1 a title and three points; 2 also a small table, and the title is the largest; 3 more of both, and
    given colours."""
    seed: int = 0
    """Another seed gives other slides."""

    def open(self) -> TaskSource:
        from turngate.envs.web.generated.slides.generate import SlideTasks

        return SlideTasks(levels=self.levels, seed=self.seed)
