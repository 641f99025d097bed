"""What a monitor says, and the episodes that monitors look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from turngate.types import JSON, Score, ScoredGroup, Trajectory

Floats: TypeAlias = npt.NDArray[np.float64]
Seen = TypeVar("Seen", contravariant=True)
Severity: TypeAlias = Literal["notice", "warning"]
NAMED = 3
"""How many trajectories an alarm names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A reason to look. ``sentence`` says it in words; ``evidence`` holds the numbers and thresholds behind it.

    ``evidence["trajectories"]``, where present, are ids to look at, the clearest cases first. A "notice" may have a
    harmless cause, a "warning" seldom has one.
    """

    name: str
    severity: Severity
    sentence: str
    evidence: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def trajectories(self) -> tuple[str, ...]:
        """Ids of the trajectories that it names."""
        ids = self.evidence.get("trajectories", ())
        return tuple(str(name) for name in ids) if isinstance(ids, Sequence) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a monitor measured: the number that it goes by, and the alarm if that number is past its limit."""

    value: float
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor(Generic[Seen]):
    """A monitor at its defaults. ``look`` gives None where it cannot tell, which is neither calm nor alarm.

    ``unit`` is that of ``Check.value`` and ``limits`` are what the value is compared with; none if it takes more than
    one number to raise the alarm.
    """

    name: str
    look: Callable[[Seen], Check | None]
    unit: str
    limits: tuple[float, ...] = ()


class ScoredEpisode(NamedTuple):
    """A usable episode with its score and the number of its group."""

    group: int
    trajectory: Trajectory
    score: Score


def usable_episodes(groups: Sequence[ScoredGroup], *, turnless: bool = False) -> list[ScoredEpisode]:
    """The usable episodes, in order: a broken one says nothing about the policy. ``turnless``: also without a turn."""
    return [episode for episode in _usable(groups) if turnless or episode.trajectory.turns]


def _usable(groups: Sequence[ScoredGroup]) -> Iterator[ScoredEpisode]:
    for number, group in enumerate(groups):
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            if score.usable:
                yield ScoredEpisode(number, trajectory, score)


def clearest(episodes: Sequence[ScoredEpisode], weight_B: Floats) -> list[str]:
    """Ids of the ``NAMED`` episodes with the largest positive weight."""
    order = np.argsort(-weight_B, kind="stable")[:NAMED]
    return [episodes[place].trajectory.id for place in order if weight_B[place] > 0]


def mean_known(values: Sequence[float | None]) -> float | None:
    """Mean of what was measured; None if nothing was."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
