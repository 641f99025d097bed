"""What guides read from the episodes of a task: who had no help, and how many succeeded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from turngate.types import Metrics, Score, ScoredGroup, Task, Trajectory

By: TypeAlias = Literal["task", "env"]
"""What a guide keeps its memory by: every task, or all tasks of an environment together."""


def owner(task: Task, by: By) -> str:
    """The key under which a guide remembers something about ``task``."""
    return task.id if by == "task" else task.env_id


def unguided(trajectory: Trajectory) -> bool:
    """Whether the policy acted without help: no hint, and every turn its own."""
    return trajectory.guidance is None


def n_unguided(trajectories: Sequence[Trajectory]) -> int:
    """How many episodes had no help."""
    return sum(unguided(one) for one in trajectories)


def is_solved(score: Score) -> bool:
    """Whether an episode can be used and is a success by its rubric."""
    return score.usable and bool(score.success)


def success_rate(scores: Iterable[Score]) -> float | None:
    """Share of usable episodes that succeeded; None if there is none."""
    usable = [is_solved(score) for score in scores if score.usable]
    return sum(usable) / len(usable) if usable else None


def all_failed(group: ScoredGroup) -> bool:
    """Whether no episode of the task has succeeded yet, with help or without.

    False if no episode without help is usable: nothing is known about the task then.
    """
    return success_rate(group.scores) == 0.0 and rates_by_level(group, None) != {}


def rates_by_level(group: ScoredGroup, kind: str | None) -> dict[int, float]:
    """Success rate of the usable episodes with help of one kind, by its level; None: without help, at level 0."""
    scores: dict[int, list[Score]] = {}
    for one, score in zip(group.trajectories, group.scores, strict=True):
        if (None if one.guidance is None else one.guidance.kind) == kind:
            scores.setdefault(0 if one.guidance is None else one.guidance.level, []).append(score)
    rates = {level: success_rate(found) for level, found in scores.items()}
    return {level: rate for level, rate in rates.items() if rate is not None}


def mean_of(name: str, values: Collection[float]) -> Metrics:
    """The metric ``name``, the mean of ``values``; nothing if there are none."""
    return {name: float(np.mean(list(values)))} if values else {}
