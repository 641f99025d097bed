"""Several candidates for one click: how they are written, and which of them hits the target of the task."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turngate.envs.tool_env import ToolError
from turngate.envs.web.engine.view import Box, PageView
from turngate.errors import ConfigError

MOST = 16
"""Most candidates that a setting allows."""
LONGEST_PATH = 64
"""Most places of a way along which the mouse is dragged."""
Point = tuple[int, int]
_PLACE = re.compile(r"(\d{1,6})\s+(\d{1,6})")
_REFERENCE = re.compile(r"e[1-9]\d*")


def check_candidates(most: int) -> int:
    """The setting ``candidates``. Raises ConfigError for a number that is out of range."""
    if type(most) is not int or not 1 <= most <= MOST:
        raise ConfigError(f"candidates is {most!r}; it must be 1 (no such tool) to {MOST}")
    return most


def candidates_of(text: str, most: int, view: PageView, left_out: str) -> tuple[Point, ...]:
    """The places that ``text`` names, in their order, in pixels of the window; of an element its middle.

    Candidates stand between commas: references, as "e3, e7", or places, as "30 40, 80 90". ``left_out``: the form that
    the environment does not accept, "places", "references" or "". Raises ToolError for anything else.
    """
    named = [one.strip() for one in text.split(",")]
    if len(named) > most:
        raise ToolError(f"there are {len(named)} candidates; name {most} at most")
    return tuple(_point(one, view, left_out) for one in named)


def _point(text: str, view: PageView, left_out: str) -> Point:
    if left_out != "places" and (place := _PLACE.fullmatch(text)):
        return int(place[1]), int(place[2])
    if left_out != "references" and _REFERENCE.fullmatch(text):
        element = view.find(text)
        if element is None:
            raise ToolError(f"there is no element '{text}' on the page")
        return round(element.box.centre[0]), round(element.box.centre[1])
    forms = {"places": "references: e3, e7", "references": "places: 30 40, 80 90"}.get(
        left_out, "e3, e7 or 30 40, 80 90"
    )
    raise ToolError(f"'{text:.40}' is no candidate; write {forms}")


def path_of(text: str) -> tuple[Point, ...]:
    """The places of a way, in their order: "30 40, 80 90, 80 120". Raises ToolError for less than two, too many, and
    texts that are no places."""
    places = [_PLACE.fullmatch(one.strip()) for one in text.split(",")]
    if not 2 <= len(places) <= LONGEST_PATH or None in places:
        raise ToolError(f"'{text:.40}' is no way; write 2 to {LONGEST_PATH} places: 30 40, 80 90, 80 120")
    return tuple((int(place[1]), int(place[2])) for place in places if place)


def rank_of_hit(points: Sequence[Point], target: Box) -> int:
    """The number of the first point inside ``target``, from 1; 0: none is."""
    for number, (x, y) in enumerate(points, start=1):
        if target.x <= x < target.x + target.width and target.y <= y < target.y + target.height:
            return number
    return 0
