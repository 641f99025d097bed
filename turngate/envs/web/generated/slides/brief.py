"""What a slide has to say and to look like, as it is stored in ``Task.private``, and how an agent is told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

PRIVATE_KEY = "slides"
SMALLEST_PX = 16
"""The smallest text of a slide."""
LEAST_CONTRAST = 4.5
"""WCAG 2.1, level AA: text against what lies behind it; of large text two thirds of that."""
LARGE_PX = 24
"""From this size on a text is large (WCAG: 18 points)."""


class SlideBrief(BaseModel):
    """One slide. ``table``: rows of cells, the heads first; () for none. ``background`` and ``title_colour``: #rrggbb,
    or "" where any will do. ``title_largest``: whether the title has to be larger than all other text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    facts: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    background: str = ""
    title_colour: str = ""
    title_largest: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All that has to be on the slide, and nothing else may be."""
        return (self.title, *self.facts, *(cell for row in self.table for cell in row))

    def instruction(self) -> str:
        """What the agent is asked for."""
        lines = [f"Make a slide with the title: {self.title}", "and these points:", *(f"- {one}" for one in self.facts)]
        if self.table:
            lines += ["and this table, its heads in the first row:", *(" | ".join(row) for row in self.table)]
        if self.background:
            lines.append(f"The background is {self.background}.")
        if self.title_colour:
            lines.append(f"The title is written in {self.title_colour}.")
        if self.title_largest:
            lines.append("The title is larger than all other text.")
        return "\n".join(lines)
