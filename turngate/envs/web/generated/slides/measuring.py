"""Measures the slide that is shown: its words, their places, and how much of them can be seen in its image."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from turngate.envs.web.engine.browser_session import BrowserSession
from turngate.envs.web.engine.tab import ScriptError
from turngate.errors import AgentFault

Rect = tuple[float, float, float, float]
"""Left, top, width and height in pixels of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of the slide, in document order.

    ``size``: of its letters in pixels, at most the height of its line. ``odd``: whether an effect changes its letters
    or their order. ``ink``: the share of its rectangles that it colours. ``contrast``: WCAG ratio to what lies behind
    it. ``colour``: red, green and blue where it is strongest; None if nothing of it is seen.
    """

    text: str
    size: float
    odd: bool
    rects: tuple[Rect, ...]
    ink: float
    contrast: float
    colour: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlideMeasure:
    """The measurements.

    ``foreign``: elements that a slide must not have; with one of them nothing else is measured. ``outgrown_px``: by how
    much the content of an element, or of the page, is larger than its box. ``tables``: of each, rows of cells of
    numbers of ``words``. ``ground``: the most frequent colour behind the text. ``moving``: number of animations.
    ``cut``: whether there are more words than are measured.
    """

    foreign: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)
    words: tuple[Word, ...] = ()
    outgrown_px: float = 0.0
    tables: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...] = ()
    ground: tuple[int, int, int] | None = None
    moving: int = 0
    cut: bool = False


def measure_slide(session: BrowserSession) -> SlideMeasure:
    """The slide that is shown now. Raises AgentFault for a page that cannot be measured."""
    try:
        return _measured(session)
    except ScriptError as error:
        raise AgentFault(f"the slide cannot be measured: {error!s:.200}") from error


def _measured(session: BrowserSession) -> SlideMeasure:
    session.evaluate(files(__package__).joinpath("measure.js").read_text("utf-8"))
    found: Mapping[str, Any] = session.evaluate("turngateSlide.texts()")
    if found["foreign"]:
        return SlideMeasure(foreign=tuple(found["foreign"]))
    name = json.dumps(f"tg-{secrets.token_hex(12)}")  # a secret: page rules for it could show hidden text
    shown = session.screenshot()
    session.evaluate(f"turngateSlide.hide({name})")
    hidden = session.screenshot()
    session.evaluate(f"turngateSlide.show({name})")
    images = ",".join(json.dumps(base64.b64encode(png).decode()) for png in (shown, hidden))
    rects = json.dumps([word["rects"] for word in found["words"]])
    seen = session.evaluate(f"turngateSlide.compare({images},{rects})")
    return SlideMeasure(
        size=(found["size"][0], found["size"][1]),
        words=tuple(_word(word, ink) for word, ink in zip(found["words"], seen["seen"], strict=True)),
        outgrown_px=found["outgrown"],
        tables=tuple(
            tuple(tuple(tuple(cell) for cell in row) for row in table) for table in found["tables"]
        ),
        ground=_colour(seen["ground"]),
        moving=found["moving"],
        cut=found["cut"],
    )  # fmt: skip


def _word(word: Mapping[str, Any], seen: Mapping[str, Any]) -> Word:
    return Word(
        text=word["text"],
        size=word["size"],
        odd=word["odd"],
        rects=tuple((x, y, width, height) for x, y, width, height in word["rects"]),
        ink=seen["ink"],
        contrast=seen["contrast"],
        colour=_colour(seen["colour"]),
    )


def _colour(found: list[int] | None) -> tuple[int, int, int] | None:
    return None if found is None else (found[0], found[1], found[2])
