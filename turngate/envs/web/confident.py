"""Clicks with a stated confidence: the argument that tools get, and the facts of such a click."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from turngate.envs.tool_env import ToolError
from turngate.envs.web.candidates import Point, rank_of_hit
from turngate.envs.web.engine.view import Box
from turngate.tools.tool import Parameter, Tool
from turngate.types import JSON

CONFIDENT = ("click", "click_at")
"""The tools that take a confidence."""
_CONFIDENCE = Parameter(
    name="confidence",
    required=False,
    description="how sure you are that this is the right place, 0 to 1",
    annotation=float,
)


def with_confidence(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools, those that click with one more argument, which may be left out."""
    return tuple(
        replace(
            one,
            description=f"{one.description} You may say how sure you are, 0 to 1.",
            parameters=(*one.parameters, _CONFIDENCE),
        )
        if one.name in CONFIDENT
        else one
        for one in tools
    )


def click_facts(stated: object, aim: Point | None, target: Box | None) -> Iterator[tuple[str, JSON]]:
    """Names and values of the facts of a click: the confidence, and where its target is known also whether it hits it
    and how far from the target's middle it is, in shares of its width and height. Raises ToolError."""
    if isinstance(stated, int | float) and not 0 <= stated <= 1:
        raise ToolError(f"the confidence is {stated}; it must be 0 to 1")
    yield "click_confidence", float(stated) if isinstance(stated, int | float) else False
    if aim is None or target is None or target.width <= 0 or target.height <= 0:
        return
    x, y = target.centre
    yield "click_hit", rank_of_hit([aim], target) == 1
    yield "click_offset", [round((aim[0] - x) / target.width, 4), round((aim[1] - y) / target.height, 4)]
