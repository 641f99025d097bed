"""Hints of a slide: what its document is made of, then styles that keep the limits, then the order of its texts."""

from __future__ import annotations

from turngate.envs.web.generated.slides.brief import SlideBrief

LEVELS = 3


def slide_hint(brief: SlideBrief, level: int) -> str | None:
    """Level 1 to 3 of help; None for another level."""
    if not 1 <= level <= LEVELS:
        return None
    parts = "an h1 for the title, a ul with an li for each point" + (
        ", a table with a tr for each row" * bool(brief.table)
    )
    said = (
        f"Write one document: a style element and a body with {parts}.",
        "Give the body a margin of 0 and a padding of 40px, all text at least 20px, and nothing a fixed height.",
        f"The h1 holds {len(brief.title.split())} words, the ul {len(brief.facts)} points"
        + (f", the table {len(brief.table)} rows of {len(brief.table[0])} cells" if brief.table else "")
        + "; copy them letter by letter, and put nothing else on the slide.",
    )
    return " ".join(said[:level])
