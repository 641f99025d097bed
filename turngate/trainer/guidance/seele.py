"""SEELE: as much of a solution is shown as makes the policy succeed every second time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.agents.prefix_turns import Entry
from turngate.errors import ConfigError
from turngate.trainer.guidance.base import Guide, GuidePart, Helpers, Need
from turngate.trainer.guidance.plan import Plan
from turngate.trainer.guidance.results import By, mean_of, owner, rates_by_level
from turngate.trainer.guidance.solutions import SOLUTIONS, n_shown, partial_solution, solution_of, solution_prefix
from turngate.types import JSON, Metrics, ScoredGroup, Task

if TYPE_CHECKING:
    from turngate.config import Config

Floats: TypeAlias = npt.NDArray[np.float64]
TARGET = 0.5
SLOPE, MIDDLE, RIDGE = 8.0, 0.5, 1e-2
_BOUNDS = np.array([[1.0, 32.0], [-0.5, 1.5], [0.0, 0.9]])
_GRID, _ZOOMS = 13, 8

Curve: TypeAlias = tuple[float, float, float]
"""(s, b, c) of ``p(h) = c + (1 − c)·σ(s·(h − b))``."""
Point: TypeAlias = tuple[float, float, float]
"""A share that was shown, the success rate with it, and the weight of the observation."""


def success_at(share: Floats, curve: tuple[Floats, Floats, Floats]) -> Floats:
    """``p(h) = c + (1 − c) / (1 + exp(−s·(h − b)))``, the three-parameter model of item response theory.

    Shares and parameters may be arrays of shapes that fit each other.
    """
    slope, middle, chance = curve
    fitted: Floats = chance + (1 - chance) / (1 + np.exp(-slope * (share - middle)))
    return fitted


def share_for(curve: Curve, *, target: float = TARGET, most: float = 0.9) -> float:
    """The share at which success is ``target``: ``b − ln((1 − c)/(p − c) − 1)/s``, in [0, ``most``]; 0 for c ≥ p."""
    slope, middle, chance = curve
    if chance >= target:
        return 0.0
    share = middle - math.log((1 - chance) / (target - chance) - 1) / slope
    return min(max(share, 0.0), most)


def fit_curve(points: Sequence[Point]) -> Curve:
    """Least squares of ``success_at`` over the points, pulled to s = 8, b = .5, c = 0 by a ridge of .01, with s ≥ 1.

    Found by a grid that is narrowed around its best cell, so that equal points give equal curves on every machine.
    """
    share_P, rate_P, weight_P = np.array(points, np.float64).reshape(-1, 3).T
    low, high = _BOUNDS.T
    best = np.array([SLOPE, MIDDLE, 0.0])
    for _ in range(_ZOOMS):
        axes = [np.linspace(start, end, _GRID) for start, end in zip(low, high, strict=True)]
        slope, middle, chance = curves = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
        fitted = success_at(share_P, (slope[:, None], middle[:, None], chance[:, None]))
        ridge = RIDGE * ((slope - SLOPE) ** 2 + (middle - MIDDLE) ** 2 + chance**2)
        at = int(np.argmin((weight_P * (fitted - rate_P) ** 2).sum(1) + ridge))
        best = np.array([axis[at] for axis in curves])
        width = 2 * (high - low) / (_GRID - 1)
        low, high = np.maximum(best - width, _BOUNDS[:, 0]), np.minimum(best + width, _BOUNDS[:, 1])
    return float(best[0]), float(best[1]), float(best[2])


class SeelePart(GuidePart):
    """SEELE: each group is played in rounds, and each round shows that share of a solution with which half of the
    siblings are expected to succeed, by the results of the task so far.

    Success is modelled as ``p(h) = c + (1 − c)·σ(s·(h − b))`` of the share h, fitted again before every round. Whole
    turns are shown, never the last one. Source: https://arxiv.org/abs/2509.06923; the fit, its prior and the rounds are
    ours.
    """

    type: Literal["seele"] = "seele"
    needs: ClassVar[frozenset[Need]] = SOLUTIONS
    rounds: tuple[int, ...] = Field((2, 2, 4), min_length=2)
    """Siblings of each round, at least 2 each; together train.group_size."""
    first: float = Field(0.0, ge=0, lt=1)
    """Share that is shown in the first round of a task of which nothing is known."""
    most: float = Field(0.9, gt=0, lt=1)
    """Largest share that is shown."""
    across: bool = False
    """Whether all rounds share one baseline, as in the paper. By default siblings that were shown equally much do,
    because a baseline over different starts is too high for those that were shown less."""
    by: By = "task"
    """Over what results are pooled. task: every task by itself; env: all tasks of an environment together, for sources
    whose tasks come only once."""

    def check_config(self, config: Config) -> None:
        group_size = config.train.group_size
        if min(self.rounds) < 2 or sum(self.rounds) != group_size:
            raise ConfigError(
                f"guide.rounds {list(self.rounds)} must be numbers of at least 2 that sum to train.group_size, "
                f"{group_size}"
            )

    def open(self, helpers: Helpers) -> Seele:
        """The guide of one run."""
        return Seele(helpers, self)


class Seele(Guide):
    """See ``SeelePart``. It remembers shares and success rates; at each visit those of earlier ones count half."""

    def __init__(self, helpers: Helpers, part: SeelePart) -> None:
        self._helpers, self._part = helpers, part
        self._points: dict[str, list[Point]] = {}
        self._shares: list[float] = []

    def plan(self, task: Task, group_size: int) -> Plan:
        """The first round, by what earlier visits showed."""
        return self._round(task, 0, self._points.get(owner(task, self._part.by), []))

    def again(self, group: ScoredGroup, wave: int) -> Plan | None:
        """The next round, by all that is known."""
        if wave >= len(self._part.rounds):
            return None
        known = self._points.get(owner(group.task, self._part.by), [])
        return self._round(group.task, wave, [*known, *_points(group)])

    def observe(self, groups: Sequence[ScoredGroup]) -> None:
        """Halve the weight of older rounds, then remember those of this step."""
        found: dict[str, list[Point]] = {}
        for group in groups:
            found.setdefault(owner(group.task, self._part.by), []).extend(_points(group))
        for key, points in found.items():
            older = [(share, rate, weight / 2) for share, rate, weight in self._points.get(key, [])]
            self._points[key] = [point for point in older if point[2] > 1e-3] + points
        shares = [one.guidance.level / 100 if one.guidance else 0.0 for group in groups for one in group.trajectories]
        self._shares = shares

    def metrics(self) -> Metrics:
        """``guide/shown_share``: mean share that was shown in the last step."""
        return mean_of("guide/shown_share", self._shares)

    def state(self) -> JSON:
        """All points."""
        return {key: [list(point) for point in points] for key, points in self._points.items()}

    def load(self, state: JSON) -> None:
        """Go on from ``state``."""
        assert isinstance(state, Mapping)
        self._points = {key: [_point(one) for one in _list(points)] for key, points in state.items()}

    def _round(self, task: Task, number: int, points: Sequence[Point]) -> Plan:
        solution = solution_of(self._helpers, task)
        wanted = self._wanted(points)
        n = n_shown(len(solution), wanted) if wanted and solution else 0
        share = n / len(solution) if solution else 0.0
        text = solution_prefix(solution, share) if share else ""
        entry: Entry = partial_solution(text, share, joins=self._part.across) if text else None
        return Plan(entries=[entry] * self._part.rounds[number])

    def _wanted(self, points: Sequence[Point]) -> float:
        if not points:
            return self._part.first
        if len(points) >= len(self._part.rounds) and not any(rate for _, rate, _ in points):
            return self._part.most
        return share_for(fit_curve(points), most=self._part.most)


def _points(group: ScoredGroup) -> list[Point]:
    """What one group says: the share of each level that was shown, and its success rate."""
    rates = {**rates_by_level(group, None), **rates_by_level(group, "partial_solution")}
    return [(level / 100, rate, 1.0) for level, rate in sorted(rates.items())]


def _list(value: JSON) -> Sequence[JSON]:
    assert isinstance(value, Sequence)
    assert not isinstance(value, str)
    return value


def _point(value: JSON) -> Point:
    share, rate, weight = (float(str(number)) for number in _list(value))
    return share, rate, weight
