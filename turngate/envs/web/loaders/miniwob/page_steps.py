"""An oracle's view of a page and its actions: one small action at a time, as a person would act."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["click", "click_at", "fill", "select", "press", "drag", "scroll", "hover", "wait"]
Point: TypeAlias = tuple[float, float]
"""A place in the window: pixels from its left and upper edges."""


class Look(Protocol):
    """A page that is shown now."""

    def js(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page's own world, as JSON has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageStep:
    """One action. An element is the ``nth`` (0-based) of those that the CSS ``selector`` finds.

    click: element. click_at: ``point``. fill: element, ``value`` replaces what it holds. select: element, ``value`` is
    the label of the option, several are separated by line ends. press: ``value`` are keys as browsers name them, with
    blanks between them, for the element if one is given, else for the one with the focus. drag: from the element's
    middle or ``point`` over ``via`` to ``to``. scroll: the wheel over the element by ``value`` pixels, down if
    positive. hover: element or ``point``. wait: ``value`` milliseconds.
    """

    kind: Kind
    selector: str | None = None
    nth: int = 0
    point: Point | None = None
    to: Point | None = None
    via: tuple[Point, ...] = ()
    value: str = ""


Oracle: TypeAlias = Callable[[Look], Iterator[PageStep]]
"""Plays a page from where it is now: yields a step, and looks again after the step has been carried out."""


class NoAnswer(Exception):
    """The page lacks something that the oracle needs, so it cannot go on."""


# --- steps ------------------------------------------------------------------------------------------------------------


def click(selector: str, nth: int = 0) -> PageStep:
    """Click an element."""
    return PageStep(kind="click", selector=selector, nth=nth)


def click_at(x: float, y: float) -> PageStep:
    """Click a place."""
    return PageStep(kind="click_at", point=(x, y))


def press(value: str, selector: str | None = None, nth: int = 0) -> PageStep:
    """Press a key."""
    return PageStep(kind="press", selector=selector, nth=nth, value=value)


def drag(start: Point, to: Point, *via: Point) -> PageStep:
    """Press the mouse at ``start``, move it over ``via`` to ``to`` and let go."""
    return PageStep(kind="drag", point=start, to=to, via=via)


def wait(milliseconds: int) -> PageStep:
    """Let time pass."""
    return PageStep(kind="wait", value=str(milliseconds))


# --- looking ----------------------------------------------------------------------------------------------------------


def utterance(look: Look) -> str:
    """The question of the page."""
    said = look.js("core.getUtterance()")
    return str(said["utterance"] if isinstance(said, dict) else said)


def texts(look: Look, selector: str) -> list[str]:
    """The text of each element that ``selector`` finds, white space made single."""
    found = look.js(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}),"
        " element => element.textContent.replace(/\\s+/g, ' ').trim())"
    )
    return [str(text) for text in found]


def count(look: Look, selector: str) -> int:
    """How many elements ``selector`` finds."""
    return int(look.js(f"document.querySelectorAll({json.dumps(selector)}).length"))


def visible_flags(look: Look, selector: str) -> list[bool]:
    """For each element that ``selector`` finds whether it takes up room on the page."""
    found = look.js(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}), element => {{"
        " const box = element.getBoundingClientRect();"
        " return box.width > 0 && box.height > 0 && getComputedStyle(element).visibility !== 'hidden'; })"
    )
    return [bool(one) for one in found]


def attributes(look: Look, selector: str, name: str) -> list[str | None]:
    """The attribute ``name`` of each element that ``selector`` finds, None where it has none."""
    found = look.js(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}),"
        f" element => element.getAttribute({json.dumps(name)}))"
    )
    return list(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where an element lies in the window: pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> Point:
        """Its middle."""
        return self.left + self.width / 2, self.top + self.height / 2


def boxes(look: Look, selector: str) -> list[Extent]:
    """Where the elements lie that ``selector`` finds."""
    found = look.js(
        f"Array.from(document.querySelectorAll({json.dumps(selector)}), element => {{"
        " const box = element.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]; })"
    )
    return [Extent(left=left, top=top, width=width, height=height) for left, top, width, height in found]


def nth_with(found: list[str], wanted: str, where: str = "") -> int:
    """The number of the first of ``found`` that is ``wanted``. Raises NoAnswer."""
    if wanted not in found:
        raise NoAnswer(f"none of {where or 'the elements'} says '{wanted}', only {found}")
    return found.index(wanted)


# --- steps that are only needed if the page is not so already ---------------------------------------------------------


def fill_field(look: Look, selector: str, value: str, nth: int = 0) -> Iterator[PageStep]:
    """Make a field hold ``value``."""
    if look.js(f"document.querySelectorAll({json.dumps(selector)})[{nth}].value") != value:
        yield PageStep(kind="fill", selector=selector, nth=nth, value=value)


def choose_labels(look: Look, selector: str, *labels: str) -> Iterator[PageStep]:
    """Make a list have exactly the options ``labels`` selected."""
    now = look.js(
        f"Array.from(document.querySelector({json.dumps(selector)}).selectedOptions, option => option.text.trim())"
    )
    if sorted(now) != sorted(labels):
        yield PageStep(kind="select", selector=selector, value="\n".join(labels))


def ticked(look: Look, selector: str, wanted: set[int]) -> Iterator[PageStep]:
    """Make exactly the boxes with the numbers ``wanted`` be ticked."""
    now = look.js(f"Array.from(document.querySelectorAll({json.dumps(selector)}), box => box.checked)")
    for nth, is_ticked in enumerate(now):
        if is_ticked != (nth in wanted):
            yield click(selector, nth)
