"""Pages that ask for shapes, letters and digits in a drawing, by size, colour and kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from turngate.envs.web.loaders.miniwob.oracles.clicking import question_part
from turngate.envs.web.loaders.miniwob.page_steps import (
    Look,
    NoAnswer,
    Oracle,
    PageStep,
    click,
    click_at,
    nth_with,
    texts,
)

KINDS = {"rect": "rectangle", "circle": "circle", "polygon": "triangle"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnShape:
    """A shape of the drawing. ``words``: words that describe it; all words of a description must be among them."""

    words: frozenset[str]
    middle: tuple[float, float]


def shapes_of(look: Look) -> list[DrawnShape]:
    """The shapes of the drawing. Large ones are twice as large as small ones: 20 pixels and 10."""
    found = look.js(
        """Array.from(document.querySelectorAll('#area_svg > *'), one => {
          const box = one.getBBox(), place = one.getBoundingClientRect();
          const size = one.tagName === 'text' ? parseFloat(one.getAttribute('font-size')) : box.width;
          return [one.tagName, one.textContent, one.getAttribute('fill'), size,
                  place.left + place.width / 2, place.top + place.height / 2];
        })"""
    )
    shapes = []
    for tag, text, colour, size, x, y in found:
        kind = {text, "digit" if text.isdigit() else "letter"} if tag == "text" else {KINDS[tag], "shape"}
        shapes.append(
            DrawnShape(words=frozenset({"large" if size > 15 else "small", colour, "item", *kind}), middle=(x, y))
        )
    return shapes


def click_shape(look: Look) -> Iterator[PageStep]:
    """Click one that is described."""
    words = set(question_part(look, re.compile(r"Click on a (.*)")).split())
    fitting = [shape for shape in shapes_of(look) if words <= shape.words]
    if not fitting:
        raise NoAnswer(f"nothing is {words}")
    yield click_at(*fitting[0].middle)


def count_shape(look: Look) -> Iterator[PageStep]:
    """Say how many there are."""
    words = set(question_part(look, re.compile(r"How many (.*)s are there")).split())
    amount = sum(words <= shape.words for shape in shapes_of(look))
    yield click("#count-buttons button", nth_with(texts(look, "#count-buttons button"), str(amount)))


def identify_shape(look: Look) -> Iterator[PageStep]:
    """Say what kind the only one is of."""
    names = {
        "Rectangle": "rectangle",
        "Circle": "circle",
        "Triangle": "triangle",
        "Letter": "letter",
        "Number": "digit",
    }
    words = shapes_of(look)[0].words
    label = next(label for label, word in names.items() if word in words)
    yield click("#area-buttons button", nth_with(texts(look, "#area-buttons button"), label))


ORACLES: dict[str, Oracle] = {
    "click-shape": click_shape,
    "count-shape": count_shape,
    "identify-shape": identify_shape,
}
