"""GRESO: tasks whose siblings ended alike several times in a row are skipped, with a chance that grows with the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from turngate.trainer.curriculum.base import Numbers, Places, Supply
from turngate.trainer.curriculum.choosing import PoolCurriculum, PoolPart
from turngate.trainer.curriculum.pass_rates import restored
from turngate.trainer.guidance.results import is_solved
from turngate.types import JSON, Metrics, Score, derive_seed

EASY, HARD = 0.98, 0.11
"""Mean outcome from which siblings that ended alike count as solved, and down to which as failed."""
LEAST_PLAYED = 0.01
"""Least chance of a task to be played, so that none is lost."""
PACE, LEAST, MOST = 0.01, 0.05, 0.95
"""Change of the controller per step, and the bounds of what it controls."""


def skip_chance(base: Numbers | float, streak: Places | int) -> Numbers:
    """``1 − max(p^c, 0.01)`` for a task whose siblings ended alike c times in a row. p is controlled."""
    chance: Numbers = 1 - np.maximum(np.power(base, streak), LEAST_PLAYED)
    return chance


def controlled(base: float, share: float, target: float) -> float:
    """The next p: 0.01 less where at least ``target`` of the groups played ended alike, else 0.01 more."""
    return float(np.clip(base - PACE if share >= target else base + PACE, LEAST, MOST))


def ended_alike(outcomes: Sequence[float]) -> str:
    """ "easy" or "hard" for siblings that all succeeded or all failed, "" for others."""
    if max(outcomes) - min(outcomes) > 1e-6:
        return ""
    mean = float(np.mean(outcomes))
    return "easy" if mean >= EASY else "hard" if mean <= HARD else ""


class GresoPart(PoolPart):
    """GRESO: goes through the tasks in random order, and skips those whose siblings ended alike several times in a row.

    https://arxiv.org/abs/2506.02177.
    """

    type: Literal["greso"] = "greso"
    target: float = Field(0.25, gt=0, lt=1)
    """Share of the groups played that may end alike: a third of it all solved, two thirds all failed. Where more do,
    more are skipped."""
    start: float = Field(0.5, ge=LEAST, le=MOST)
    """How likely a task is played again after its siblings ended alike once, before the controller changes that."""

    def open(self, supply: Supply) -> Greso:
        return Greso(self, supply)


class Greso(PoolCurriculum):
    """Goes through each pool in a random order, another in each pass, and skips by ``skip_chance``.

    c is the number of latest steps in a row in which the unaided siblings of a task ended alike, p one number for
    tasks that were all solved last and one for those that all failed. From the second pass on each p follows the share
    of groups of the step that ended alike. Siblings that ended alike in between, at a partial outcome, end a row.
    """

    def __init__(self, part: GresoPart, supply: Supply) -> None:
        super().__init__(part, supply)
        self._targets = {"easy": part.target / 3, "hard": part.target * 2 / 3}
        self._base = dict.fromkeys(self._targets, part.start)
        self._streak_P = np.zeros(self.size, np.int64)
        self._easy_P = np.zeros(self.size, np.bool_)
        self._cursors = [0] * len(self.pools)
        self._orders: dict[int, tuple[int, Sequence[int]]] = {}  # pool → number of its pass, and the order in it
        self._passed = self._skipped = 0

    def chances(self) -> Numbers:
        """How likely each place is skipped: float64[P]."""
        return skip_chance(np.where(self._easy_P, self._base["easy"], self._base["hard"]), self._streak_P)

    def places(self, n: int) -> list[int]:
        """Reset the count of skipped tasks; then as every curriculum does."""
        if not self.n_taken:
            self._passed = self._skipped = 0
        return super().places(n)

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """The next places of the pool's order that are free and not skipped."""
        if not n or not len(free_P):
            return free_P[:0]
        number = self.owner(int(free_P[0]))
        free, chance_P, chosen = set(free_P.tolist()), self.chances(), list[int]()
        while free and len(chosen) < n:
            place = self._next(number)
            if place not in free:
                continue
            self._passed += 1
            if rng.random() < chance_P[place]:
                self._skipped += 1
                continue
            free.remove(place)
            chosen.append(place)
        return np.array(chosen, np.int64)

    def learn(self, results: Mapping[int, Sequence[Score]]) -> None:
        """Lengthen or end the rows, and move each p towards its target, too."""
        super().learn(results)
        counts = dict.fromkeys(self._base, 0)
        for place, scores in results.items():
            kind = ended_alike([1.0 if is_solved(score) else score.outcome or 0.0 for score in scores])
            self._streak_P[place] = self._streak_P[place] + 1 if kind else 0
            self._easy_P[place] = kind == "easy"
            if kind:
                counts[kind] += 1
        begun = all(cursor > pool.size for cursor, pool in zip(self._cursors, self.pools, strict=True))
        if results and begun:
            for kind, target in self._targets.items():
                self._base[kind] = controlled(self._base[kind], counts[kind] / len(results), target)

    def own_metrics(self) -> Metrics:
        """The share that was skipped, and both numbers p."""
        return {
            "curriculum/skipped_share": self._skipped / max(1, self._passed),
            **{f"curriculum/p_{kind}": base for kind, base in self._base.items()},
        }

    def state(self) -> dict[str, JSON]:
        """The rows, both numbers p, and how far each pool was gone through."""
        own: dict[str, JSON] = {
            "streak": self._streak_P.tolist(),
            "easy": [int(easy) for easy in self._easy_P],
            "base": list(self._base.values()),
            "cursors": list(self._cursors),
        }
        return super().state() | own

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Take back what ``state`` gave. Raises StoreError for another pool."""
        super().restore(state)
        self._streak_P = restored(state["streak"], self._streak_P).astype(np.int64)
        self._easy_P = restored(state["easy"], self._easy_P).astype(np.bool_)
        self._cursors = [int(cursor) for cursor in restored(state["cursors"], self._cursors)]
        self._base = dict(zip(self._base, restored(state["base"], self._base).tolist(), strict=True))

    def _next(self, number: int) -> int:
        """The next place in the order of a pool."""
        size, first = self.pools[number].size, self.first(number)
        turn, at = divmod(self._cursors[number], size)
        self._cursors[number] += 1
        if self._orders.get(number, (-1, ()))[0] != turn:
            seed = derive_seed(self.supply.seed, "greso", number, turn)
            self._orders[number] = turn, np.random.default_rng(seed).permutation(size).tolist()
        return first + self._orders[number][1][at]
