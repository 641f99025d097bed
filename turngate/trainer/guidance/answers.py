"""What a guide answers, read before it is used: plans, groups and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from turngate.agents.handoff import Handoff
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.part_calls import Unusable, call_part, ignored, instance_of, metrics_of, short_result, text, whole
from turngate.trainer.guidance.base import Guide
from turngate.trainer.guidance.plan import Plan
from turngate.types import Action, Guidance, Metrics, ScoredGroup, Task

GUIDE = "guide"
_PLAN = "a Plan, Plan(entries=[…]), with a Guidance, a PrefixTurns, a Handoff or None for each episode, at least one"


def first_wave(guide: Guide, task: Task, group_size: int) -> Plan:
    """``Guide.plan``. Raises PartError for what cannot be played."""
    return call_part(GUIDE, guide.plan, task, group_size, take=_plan, must=_PLAN)


def next_wave(guide: Guide, group: ScoredGroup, wave: int, *, rows: int) -> Plan | None:
    """``Guide.again``; ``rows``: how many there are to replace. Raises PartError for what cannot be played."""
    must = f"{_PLAN}; or None for no further wave"
    return call_part(GUIDE, guide.again, group, wave, take=partial(_plan_or_none, rows=rows), must=must)


def settle(guide: Guide, group: ScoredGroup, played: ScoredGroup) -> ScoredGroup:
    """``Guide.settle``. Raises PartError for anything but a ScoredGroup."""
    found: ScoredGroup = call_part(
        GUIDE, guide.settle, group, played, take=instance_of(ScoredGroup), must="a ScoredGroup"
    )
    return found


def observed(guide: Guide, played: Sequence[ScoredGroup]) -> Metrics:
    """Show a guide the results of a step: its metrics. Raises PartError for metrics that are no numbers."""
    call_part(GUIDE, guide.observe, played, take=ignored, must="")
    return call_part(GUIDE, guide.metrics, take=metrics_of, must="a dictionary of numbers by name")


def _plan_or_none(found: object, *, rows: int) -> Plan | None:
    if found is None:
        return None
    plan = _plan(found)
    if plan.row is not None and plan.row >= rows:
        raise Unusable(f"row is {plan.row}, and the group has {rows}")
    return plan


def _plan(found: object) -> Plan:
    if not isinstance(found, Plan):
        raise Unusable
    entries = [_entry(entry, f"entry {place}") for place, entry in enumerate(found.entries)]
    if not entries:
        raise Unusable("it has no entries")
    if found.into not in ("same", "own", "replace"):
        raise Unusable(f"into is {short_result(found.into)}")
    row = None if found.row is None else whole(found.row, "row")
    return Plan(entries=entries, into=found.into, row=row)


def _entry(entry: object, name: str) -> Entry:
    if entry is None:
        return None
    if isinstance(entry, Guidance):
        return _guidance(entry, name)
    if isinstance(entry, PrefixTurns):
        turns = [entry.turns] if isinstance(entry.turns, str) else entry.turns  # a text is a sequence of texts, too
        known = all(isinstance(turn, str) or (isinstance(turn, Action) and turn.cut_off) for turn in turns)
        if turns is not entry.turns or not known or not all(isinstance(key, str) for key in entry.keys):
            raise Unusable(f"turns of {name} are {short_result(entry.turns)}")
        return replace(entry, guidance=_guidance(entry.guidance, name))
    if isinstance(entry, Handoff) and callable(getattr(entry.actor, "act", None)):
        return replace(entry, guidance=_guidance(entry.guidance, name))
    raise Unusable(f"{name} is {short_result(entry)}")


def _guidance(one: object, name: str) -> Guidance:
    if not isinstance(one, Guidance):
        raise Unusable(f"guidance of {name} is {short_result(one)}")
    for key in ("kind", "text", "source"):
        text(getattr(one, key), f"{key} of {name}")
    level = whole(one.level, f"level of {name}")
    return replace(one, level=level, insert_turn=whole(one.insert_turn, f"insert_turn of {name}"))
