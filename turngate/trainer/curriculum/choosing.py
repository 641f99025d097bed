"""Curricula that choose from a pool of tasks by how often the policy solves each: by learnability, or in a band."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from turngate.part_calls import Unusable, call_part
from turngate.trainer.curriculum.base import CurriculumPart, Numbers, Places, Supply, TaskPool
from turngate.trainer.curriculum.pass_rates import (
    PassRates,
    expected_draws,
    informative,
    learnability,
    successes,
    unaided,
)
from turngate.trainer.curriculum.task_order import shares
from turngate.types import JSON, Metrics, Score, ScoredGroup, Task, derive_seed

LEAST_WEIGHT = 1e-3
"""Added to the learnability of every task, so that none is out of reach."""


class PoolPart(CurriculumPart):
    """Settings of every curriculum that chooses from a pool."""

    pool: int | None = Field(None, ge=2)
    """How many tasks of each environment there are to choose from: the first ones of its split. Left out: all of
    them. An endless source needs a number."""
    half_life: float = Field(3.0, gt=0)
    """Age at which a result counts half, in passes over the pool: after so many steps the policy is another."""


def draw_places(log_weight: Numbers, n: int, rng: np.random.Generator) -> Places:
    """``n`` different places, drawn one after the other, each in proportion to ``exp(log_weight)`` of those left.

    The n largest of ``log w + g`` with Gumbel noise g (https://arxiv.org/abs/1903.06059), so weights may be as small as
    they like. Returns int[n], or all places where there are fewer.
    """
    keys = log_weight + rng.gumbel(size=len(log_weight))
    return np.argsort(-keys, kind="stable")[:n]


def band_distance(pass_rate: Numbers, low: float, high: float) -> Numbers:
    """How far each pass rate lies outside of [low, high]; 0 inside."""
    away: Numbers = np.maximum(0.0, np.maximum(low - pass_rate, pass_rate - high))
    return away


class PoolCurriculum(ABC):
    """Chooses the tasks of a step from one pool per environment, and follows how often each task is solved.

    The pools are numbered through: place 0 is the first task of the first environment. Every environment gets its share
    of the step by its weight. A subclass says which places to take.
    """

    stateful = True

    def __init__(self, part: PoolPart, supply: Supply) -> None:
        self.supply = supply
        self.pools: Sequence[TaskPool] = supply.pools(part.pool)
        ends = np.cumsum([pool.size for pool in self.pools]).tolist()
        self._first: list[int] = [end - pool.size for end, pool in zip(ends, self.pools, strict=True)]
        self.size: int = ends[-1]
        self.rates = PassRates(self.size, part.half_life * self.size / supply.per_step)
        self.step = 0
        self._taken: dict[str, int] = {}  # task → place, of the step that was picked last

    # --- what a subclass writes or extends ----------------------------------------------------------------------------

    @abstractmethod
    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """``n`` of the places ``free_P``, which are those of one environment that the step does not have yet."""

    def learn(self, results: Mapping[int, Sequence[Score]]) -> None:
        """Take in the scores of the unaided episodes of each place: here, how many of them succeeded."""
        for place, scores in results.items():
            won = successes(scores)
            self.rates.add(place, self.step, won, len(scores) - won)

    def own_metrics(self) -> Metrics:
        """Metrics of this curriculum beyond those of all."""
        return {}

    def state(self) -> dict[str, JSON]:
        """Everything that results have changed, as JSON."""
        return self.rates.state()

    def restore(self, state: Mapping[str, JSON]) -> None:
        """Take back what ``state`` gave. Raises StoreError for another pool."""
        self.rates.restore(state)

    def places(self, n: int) -> list[int]:
        """``n`` places that the step does not have yet, or fewer: each environment's share, by its weight."""
        seed = derive_seed(self.supply.seed, "curriculum")
        now = derive_seed(self.step, self.n_taken)
        counts = shares([pool.weight for pool in self.pools], n, seed=seed, step=now)
        rng = np.random.default_rng(derive_seed(seed, now))
        return [place for number, count in enumerate(counts) for place in self._chosen(self.free(number), count, rng)]

    def _chosen(self, free_P: Places, n: int, rng: np.random.Generator) -> list[int]:
        """What ``choose`` answers. Raises PartError for anything but at most ``n`` of the places, each once."""

        def read(found: object) -> list[int]:
            places = np.asarray(found)
            if len(places) and places.dtype.kind not in "iu":
                raise Unusable(f"its dtype is {places.dtype}")
            if len(places) > n or len(set(places.tolist())) < len(places) or not np.isin(places, free_P).all():
                raise Unusable
            return [int(place) for place in places]

        must = f"at most {n} of the places that it is given, int[P], each once"
        return call_part("curriculum", self.choose, free_P, n, rng, take=read, must=must)

    # --- the protocol of a curriculum ---------------------------------------------------------------------------------

    def pick(self, step: int) -> list[Task]:
        """The tasks of one step."""
        self.step, self._taken = step, {}
        return self.more(self.supply.per_step)

    def more(self, n: int) -> list[Task]:
        """Further tasks of the same step."""
        places = self.places(n)
        tasks = [self.task(place) for place in places]
        self._taken |= {task.id: place for task, place in zip(tasks, places, strict=True)}
        return tasks

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Count the unaided results of the tasks that were picked."""
        found = unaided(groups)
        self.learn({place: found[task] for task, place in self._taken.items() if task in found})

    def metrics(self) -> Metrics:
        """The mean pass rate of the pool, how much of it was ever played, and how much a group of it would teach."""
        rate_P = self.rates.means(self.step)
        kept = float(informative(rate_P, self.supply.group_size).mean())
        return {
            "curriculum/pass_rate": float(rate_P.mean()),
            "curriculum/seen_share": self.rates.seen_share,
            "curriculum/informative_share": kept,
            "curriculum/expected_groups": expected_draws(self.supply.per_step, kept),
            **self.own_metrics(),
        }

    def save(self, path: Path) -> None:
        """Write the state as JSON."""
        path.write_text(json.dumps(self.state()), encoding="utf-8")

    def load(self, path: Path) -> None:
        """Read what ``save`` wrote. Raises StoreError if the tasks are others."""
        self.restore(json.loads(path.read_text(encoding="utf-8")))

    # --- for subclasses -----------------------------------------------------------------------------------------------

    @property
    def n_taken(self) -> int:
        """How many tasks the step has so far."""
        return len(self._taken)

    def task(self, place: int) -> Task:
        """The task at a place."""
        number = self.owner(place)
        return self.pools[number].task(place - self.first(number))

    def owner(self, place: int) -> int:
        """The number of the pool that a place belongs to."""
        return int(np.searchsorted(self._first, place, side="right")) - 1

    def first(self, number: int) -> int:
        """The first place of a pool."""
        return self._first[number]

    def free(self, number: int) -> Places:
        """The places of a pool that the step does not have yet, ascending."""
        first = self.first(number)
        places = np.arange(first, first + self.pools[number].size)
        return np.setdiff1d(places, list(self._taken.values()))


class LearnabilityPart(PoolPart):
    """Plays tasks the more often, the less certain it is whether the policy solves them.

    A task is drawn with weight ``p(1 − p) + 0.001``, p its pass rate; a share of the draws is uniform.
    """

    type: Literal["learnability"] = "learnability"
    uniform: float = Field(0.2, ge=0, lt=1)
    """Share of the draws that ignore pass rates, so that no estimate goes stale."""

    def open(self, supply: Supply) -> Learnability:
        return Learnability(self, supply)


class Learnability(PoolCurriculum):
    """Draws places with probability ``(1 − u)·w/Σw + u/M``, w = p(1 − p) + 0.001, without repeating one.

    M is the number of free places, u the uniform share. Degenerate: equal pass rates give a uniform draw.
    """

    def __init__(self, part: LearnabilityPart, supply: Supply) -> None:
        super().__init__(part, supply)
        self._uniform = part.uniform

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """Some of the free places, by learnability."""
        weight = learnability(self.rates.means(self.step)[free_P]) + LEAST_WEIGHT
        chance = (1 - self._uniform) * weight / weight.sum() + self._uniform / max(1, len(free_P))
        return free_P[draw_places(np.log(chance), n, rng)]


class BandPart(PoolPart):
    """Plays tasks whose pass rate lies in a band, and where those are too few, tasks nearest to it."""

    type: Literal["band"] = "band"
    low: float = Field(0.2, ge=0, le=1)
    """Least pass rate of the band. A task that was never played has 0.5."""
    high: float = Field(0.8, ge=0, le=1)
    """Largest pass rate of the band."""

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}, so no pass rate lies in the band")
        if (self.low, self.high) == (0, 1):
            raise ValueError("low = 0 and high = 1 have no effect: every pass rate lies in the band; narrow it")
        return self

    def open(self, supply: Supply) -> Band:
        return Band(self, supply)


class Band(PoolCurriculum):
    """Draws uniformly among tasks with low ≤ p ≤ high; where they are too few, the band is widened to the nearest.

    Source: the difficulty band of https://arxiv.org/abs/2504.03380, applied before a task is played, to its estimated
    pass rate. Old results fade, so the estimate of a task outside goes back to 1/2, and it is tried again.
    """

    def __init__(self, part: BandPart, supply: Supply) -> None:
        super().__init__(part, supply)
        self._low, self._high = part.low, part.high

    def choose(self, free_P: Places, n: int, rng: np.random.Generator) -> Places:
        """Some of the free places: those in the band, then the nearest to it; equals in random order."""
        away = band_distance(self.rates.means(self.step)[free_P], self._low, self._high)
        return free_P[np.lexsort((rng.random(len(free_P)), away))[:n]]

    def own_metrics(self) -> Metrics:
        """How much of the pool lies in the band."""
        away_P = band_distance(self.rates.means(self.step), self._low, self._high)
        return {"curriculum/in_band_share": float((away_P == 0).mean())}
