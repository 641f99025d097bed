"""What an episode source and a replay strategy answer, read before it is used: the episodes of a step, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from turngate.errors import PartError
from turngate.part_calls import Unusable, answering, call_part, call_part_later, metrics_of, short_result, whole
from turngate.trainer.offline.episode_index import Recorded
from turngate.trainer.offline.replays import ReplayFacts, ReplayPart, StepPlan
from turngate.trainer.offline.sources import EpisodeSource, EpisodesPart, PlayTasks, SourceMeans, Waves
from turngate.types import ScoredGroup, Task

SOURCE = "episode source"
_WAVES = "Waves whose groups, played and unused are lists of ScoredGroup, and whose metrics are numbers by name"
_PLAN = (
    "a StepPlan: n_tasks of at most the tasks that were picked, groups of recorded episodes, joined ones by the id of "
    "a task that is played, and again one by the id of a further task"
)


def opened_source(part: EpisodesPart, means: SourceMeans) -> EpisodeSource:
    """``EpisodesPart.open``. Raises PartError for an object without the methods of an ``EpisodeSource``."""
    found: EpisodeSource = call_part(part.noun, part.open, means, take=answering("waves"), must="an EpisodeSource")
    return found


async def waves_of(source: EpisodeSource, play: PlayTasks, tasks: Sequence[Task], step: int) -> Waves:
    """``EpisodeSource.waves``. Raises PartError for episodes that cannot be learned from; errors of ``play`` pass
    unchanged."""
    raised: list[BaseException] = []

    async def played(tasks: Sequence[Task], *, group_size: int | None = None) -> Waves:
        try:
            return await play(tasks, group_size=group_size)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        return await call_part_later(SOURCE, source.waves, played, tasks, step, take=_waves, must=_WAVES)
    except PartError as error:
        if any(error.__cause__ is one for one in raised):  # the source is not at fault
            raise error.__cause__ from error.__cause__.__cause__  # type: ignore[misc, union-attr]
        raise


def plan_of(part: ReplayPart, facts: ReplayFacts) -> StepPlan:
    """``ReplayPart.plan``. Raises PartError for a plan that cannot be followed."""
    return call_part(part.noun, part.plan, facts, take=partial(_plan, facts=facts), must=_PLAN)


def _waves(found: Any) -> Waves:
    if not isinstance(found, Waves):
        raise Unusable
    columns = {name: list(getattr(found, name)) for name in ("groups", "played", "unused")}
    for name, groups in columns.items():
        for group in groups:
            if not isinstance(group, ScoredGroup):
                raise Unusable(f"{name} has {short_result(group)}")
    return Waves(**columns, metrics=metrics_of(found.metrics))


def _plan(found: Any, *, facts: ReplayFacts) -> StepPlan:
    if not isinstance(found, StepPlan):
        raise Unusable
    n_tasks = whole(found.n_tasks, "n_tasks")
    if n_tasks > len(facts.tasks):
        raise Unusable(f"n_tasks is {n_tasks}, and {len(facts.tasks)} were picked")
    groups = [_rows(rows, "a group") for rows in found.groups]
    joined = {task: _rows(rows, f"joined of {short_result(task)}") for task, rows in found.joined.items()}
    again = {task: _row(row, f"again of {short_result(task)}") for task, row in found.again.items()}
    for task, rows in [*joined.items(), *((task, [row]) for task, row in again.items())]:
        if any(row.task != task for row in rows):
            raise Unusable(f"what joins '{task}' is of '{rows[0].task}'")
    played = set(facts.tasks[:n_tasks])
    for task in joined.keys() - played:
        raise Unusable(f"joined has '{task}', which is not played")
    if not (n_tasks or groups or again):
        raise Unusable("nothing would be learned from")
    return StepPlan(n_tasks=n_tasks, groups=groups, joined=joined, again=again)


def _rows(found: Any, name: str) -> list[Recorded]:
    """Recorded episodes of one task."""
    rows = [_row(row, name) for row in found]
    if not rows:
        raise Unusable(f"{name} has no episodes")
    if len({row.task for row in rows}) > 1:
        raise Unusable(f"{name} has episodes of several tasks")
    return rows


def _row(found: Any, name: str) -> Recorded:
    if not isinstance(found, Recorded):
        raise Unusable(f"{name} has {short_result(found)}")
    return found
