"""The gold calls of a task, played in its world: the states that they lead through, and the paths that they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turngate.envs.tooluse.engine.states import Path, changes
from turngate.envs.tooluse.engine.world import OpenWorld
from turngate.errors import TaskRefused
from turngate.tools.arguments import BadArguments, convert_arguments
from turngate.tools.read import find, unknown
from turngate.types import JSON, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldRun:
    """The results of a task's gold calls. States are None where the world does not know them."""

    calls: tuple[ToolCall, ...]
    before: JSON
    after: JSON
    touched: frozenset[Path]
    """Every path at which one of the calls changed something."""


def play_gold(world: OpenWorld, initial: Mapping[str, object] | None, calls: Sequence[ToolCall]) -> GoldRun:
    """Play gold calls in ``world``, from the state ``initial``.

    Raises TaskRefused for a call that the world has no tool for, whose arguments do not fit, that fails, or that breaks
    a policy, and what ``OpenWorld.start`` raises.
    """
    world.start(initial)
    before = now = world.state()
    touched: frozenset[Path] = frozenset()
    for number, call in enumerate(calls, 1):
        which = f"gold call {number} ({call.name})"
        tool = find(call.name, world.tools)
        if tool is None:
            raise TaskRefused(f"{which}: {unknown(call.name, world.tools)}")
        try:
            arguments, _ = convert_arguments(tool, call.arguments)
        except BadArguments as problem:
            raise TaskRefused(f"{which}: {problem}") from None
        reply = world.call(tool, arguments, call)
        if not reply.ok:
            raise TaskRefused(f"{which} fails: {reply.text:.200}")
        if reply.violations:
            raise TaskRefused(f"{which} breaks the policy '{reply.violations[0]}'")
        then = world.state()
        if tool.read_only and then != now:
            raise TaskRefused(f"{which} is marked as read-only, but it changes the state")
        touched |= changes(now, then)
        now = then
    return GoldRun(calls=tuple(calls), before=before, after=now, touched=touched)
