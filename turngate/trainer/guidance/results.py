"""What guides read from the episodes of a task: who had no help, and how many succeeded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turngate.trainer.evaluate import SUCCESS
from turngate.types import Score, ScoredGroup, Trajectory


def unguided(trajectory: Trajectory) -> bool:
    """Whether the policy did it alone: no hint, and no turn that somebody else took."""
    return trajectory.guidance is None


def solved(score: Score) -> bool:
    """Whether an episode can be used and reached the full outcome."""
    return score.usable and (score.outcome or 0.0) >= SUCCESS


def success_rate(scores: Iterable[Score]) -> float | None:
    """Share of usable episodes that succeeded; None if there is none."""
    usable = [solved(score) for score in scores if score.usable]
    return sum(usable) / len(usable) if usable else None


def unguided_rate(group: ScoredGroup) -> float | None:
    """``success_rate`` of the episodes without help."""
    return success_rate([score for one, score in zip(group.trajectories, group.scores, strict=True) if unguided(one)])


def last_rate(group: ScoredGroup, n: int) -> float | None:
    """``success_rate`` of the last ``n`` episodes, those of the latest wave."""
    return success_rate(group.scores[-n:])


def all_failed(group: ScoredGroup) -> bool:
    """Whether no episode of the task has succeeded yet, with help or without. False if none is usable: nothing is
    known about the task then."""
    return success_rate(group.scores) == 0.0


def n_unguided(trajectories: Sequence[Trajectory]) -> int:
    """How many episodes had no help."""
    return sum(unguided(one) for one in trajectories)
