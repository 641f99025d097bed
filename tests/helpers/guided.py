"""Guides without environments: help that is known, and a task that is played by rule until its guide has enough."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.helpers import models
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.trainer.guidance.base import Guide, GuidePart
from turngate.trainer.guidance.plan import Plan
from turngate.types import Guidance, ScoredGroup, Task

MODULES = {"hint_guides", "solutions", "seele", "prefixes", "prefix_schedules", "reflect", "screening"}
TASK = Task(id="t", env_id="e", prompt="")


def shipped() -> list[str]:
    """The guides that ship and need no model to write anything."""
    home = "turngate.trainer.guidance"
    return [
        kind for kind, part in GuidePart.catalogue().items() if part.__module__ in {f"{home}.{one}" for one in MODULES}
    ]


@dataclass
class Known:
    """Helpers with the same hints and solutions for every task."""

    hints: Sequence[str | None] = ()
    actions: Sequence[Sequence[str]] = ()
    seed: int = 0

    def hint(self, task: Task, level: int) -> str | None:
        return self.hints[level - 1] if 1 <= level <= len(self.hints) else None

    def hint_levels(self, task: Task) -> int:
        return len(self.hints)

    def solutions(self, task: Task) -> Sequence[Sequence[str]]:
        return self.actions


def solution(n: int) -> list[list[str]]:
    """One solution of ``n`` turns."""
    return [[f"act {turn}" for turn in range(n)]]


def guidance_of(entry: Entry) -> Guidance | None:
    return entry.guidance if isinstance(entry, PrefixTurns) else entry


def group_of(entries: Sequence[Entry], outcomes: Sequence[float | None], task: Task = TASK) -> ScoredGroup:
    """Episodes with this help and these outcomes; None = unusable."""
    trajectories = [
        replace(models.trajectory([models.turn([1], [2])], name=f"{task.id}{at}"), task=task, guidance=guidance_of(one))
        for at, one in enumerate(entries)
    ]
    scores = [models.score(1, 0.0 if value is None else value, usable=value is not None) for value in outcomes]
    return ScoredGroup(task=task, trajectories=tuple(trajectories), scores=tuple(scores))


def visit(
    guide: Guide, succeeds: Callable[[Guidance | None, int], float | None], *, size: int = 8, task: Task = TASK
) -> list[Plan]:
    """One task in one step: its waves. ``succeeds`` gives the outcome of an episode from its help and its number."""
    plans, entries, outcomes = [guide.plan(task, size)], list[Entry](), list[float | None]()
    while True:
        for entry in plans[-1].entries:
            outcomes.append(succeeds(guidance_of(entry), len(entries)))
            entries.append(entry)
        again = guide.again(group_of(entries, outcomes, task), len(plans))
        if again is None:
            guide.observe([group_of(entries, outcomes, task)])
            return plans
        plans.append(again)


def levels(plan: Plan) -> list[int]:
    """The level of every episode of a wave; 0 = no help."""
    return [0 if (found := guidance_of(entry)) is None else found.level for entry in plan.entries]
