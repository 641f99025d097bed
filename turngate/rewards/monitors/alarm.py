"""The result of a monitor (``Check``, with an ``Alarm`` if it is past its limit), and the episodes that it looks at."""

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
    """A reason to read episodes: a monitor measured something past its limit.

    ``sentence`` says what was seen, why it matters and what to do; ``evidence`` holds the numbers and limits behind it.
    ``evidence["trajectories"]``, where present, are the ids of the episodes to read, the clearest cases first. A
    "notice" may have a harmless cause, a "warning" seldom has one.
    """

    name: str
    severity: Severity
    sentence: str
    evidence: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def trajectories(self) -> tuple[str, ...]:
        """Ids of the trajectories to read, the clearest cases first; empty if the alarm names none."""
        ids = self.evidence.get("trajectories", ())
        return tuple(str(name) for name in ids) if isinstance(ids, Sequence) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A monitor's measurement: the number that decides, and the alarm if that number is past its limit."""

    value: float
    alarm: Alarm | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor(Generic[Seen]):
    """A monitor at its defaults. ``look`` returns None where there is too little to measure: no value and no alarm.

    ``unit`` is that of ``Check.value``; ``limits`` are what the value is compared with. There are none where the alarm
    depends on more than one number.
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
    """The usable episodes, in order: unusable ones say nothing about the policy. ``turnless``: also those without a
    turn."""
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
    """Mean of the measured values; None if nothing was measured."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
