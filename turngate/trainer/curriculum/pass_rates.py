"""How often the policy solves a task unaided, by its latest attempts, and how much a group of attempts would teach.

Arrays that end in ``_P`` have an entry for each task of a curriculum's pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized

import numpy as np

from turngate.agents.branches import shared_parent
from turngate.errors import StoreError
from turngate.trainer.curriculum.base import Numbers
from turngate.trainer.guidance.results import is_solved
from turngate.types import JSON, Score, ScoredGroup, Source, Trajectory


def informative(pass_rate: Numbers | float, siblings: int) -> Numbers:
    """``1 − p^G − (1−p)^G``: the chance that ``siblings`` attempts do not all end alike."""
    rate = np.asarray(pass_rate, np.float64)
    return 1 - rate**siblings - (1 - rate) ** siblings


def expected_draws(wanted: int, kept_share: float) -> float:
    """``n/q``: how many groups are played until ``wanted`` are kept, if a share q is kept; infinite for q = 0.

    Source: the cost of dynamic sampling in DAPO, https://arxiv.org/abs/2503.14476, with q as ``informative`` has it.
    """
    return wanted / kept_share if kept_share else float("inf")


def learnability(pass_rate: Numbers) -> Numbers:
    """``p(1−p)``, the variance of success: 0 for a task that is always or never solved, largest at 1/2."""
    return pass_rate * (1 - pass_rate)


def unaided(groups: Iterable[ScoredGroup]) -> dict[str, list[Score]]:
    """Task → the scores of its usable episodes that the policy played alone from the beginning.

    Left out are episodes with any guidance, with turns that the policy did not take, branches, which begin in the midst
    of another episode, and new attempts, which saw an earlier one: what they reach says nothing about how often the
    policy solves the task by itself. A branch before the first turn of another episode shares nothing with it and
    counts.
    """
    found: dict[str, list[Score]] = {}
    for group in groups:
        known = {one.id: one for one in group.trajectories}
        for trajectory, score in zip(group.trajectories, group.scores, strict=True):
            if score.usable and _is_unaided(trajectory, known):
                found.setdefault(group.task.id, []).append(score)
    return found


def successes(scores: Iterable[Score]) -> int:
    """How many of the episodes succeeded: a partial outcome is no success."""
    return sum(map(is_solved, scores))


class PassRates:
    """The pass rate of each task of a pool: the mean ``(1 + w)/(2 + w + l)`` of Beta(1 + w, 1 + l).

    w and l are the successes and failures so far, each of which counts half after ``half_life`` steps, because the
    policy has changed since. A task that was never played has 1/2.
    """

    def __init__(self, size: int, half_life: float) -> None:
        self._half_life = half_life
        self._won_P = np.zeros(size)
        self._lost_P = np.zeros(size)
        self._step_P = np.zeros(size)  # of the newest result; 0 = never played

    def add(self, place: int, step: int, won: int, lost: int) -> None:
        """Count the results of one task in one step."""
        fade = self._fade(step)[place]
        self._won_P[place] = self._won_P[place] * fade + won
        self._lost_P[place] = self._lost_P[place] * fade + lost
        self._step_P[place] = step

    def means(self, step: int) -> Numbers:
        """The pass rates as seen in one step: float64[P]."""
        fade_P = self._fade(step)
        return (1 + self._won_P * fade_P) / (2 + (self._won_P + self._lost_P) * fade_P)

    @property
    def seen_share(self) -> float:
        """Share of the pool that was played at least once."""
        return float((self._step_P > 0).mean())

    def state(self) -> dict[str, JSON]:
        """Everything that was counted, as JSON."""
        return {"won": self._won_P.tolist(), "lost": self._lost_P.tolist(), "step": self._step_P.tolist()}

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Take back what ``state`` gave. Raises StoreError for a pool of another size."""
        self._won_P = restored(state["won"], self._won_P)
        self._lost_P = restored(state["lost"], self._lost_P)
        self._step_P = restored(state["step"], self._step_P)

    def _fade(self, step: int) -> Numbers:
        return np.exp2((self._step_P - step) / self._half_life)


def restored(found: JSON, like: Sized) -> Numbers:
    """Numbers of a checkpoint: float64, one for each of ``like``. Raises StoreError for another number of them."""
    numbers = np.array(found, np.float64)
    if numbers.shape != (len(like),):
        raise StoreError(
            f"the checkpoint's curriculum has {numbers.size} numbers where this run has {len(like)}; the tasks of an "
            "environment have changed since the run began"
        )
    return numbers


def _is_unaided(trajectory: Trajectory, known: Mapping[str, Trajectory]) -> bool:
    helped = trajectory.guidance is not None or any(turn.guidance is not None for turn in trajectory.turns)
    forced = any((turn.source == Source.GUIDE).any() for turn in trajectory.turns)
    begun = trajectory.parent is None or (trajectory.parent[1] == 0 and shared_parent(trajectory, known) is not None)
    return begun and not helped and not forced
