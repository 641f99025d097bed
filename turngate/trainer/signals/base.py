"""What a signal is, and all signals of a run as one.

A ``Signal`` looks at the kept episodes of a step before credit and fills in columns of the turn table. What it found
may come with a lesson for afterwards: a critic has returns to learn, an implicit reward model has outcomes. Only
signals that the credit rule reads are made (``turngate.run.credit.signals_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.trainer.learner import Learner
from turngate.trainer.pack import boundaries, pack, rows
from turngate.types import Batch, FloatArray, IntArray, Metrics, ScoredGroup, Trajectory, TurnTable

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
Lesson: TypeAlias = Callable[[TurnTable], tuple[Mapping[str, FloatArray], Metrics]]
"""From the table that credit saw: columns [L] for the learner's ``measured``, and metrics. Called once per step."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """The kept episodes of a step, as trajectories, as turns, and as tokens that carry no credit yet.

    ``spoken_S``: places of the policy tokens in ``batch``; ``turn_S``: the row of the table that each belongs to.
    ``before_N``, ``after_N``: places after which the agent is to act, and has acted (``pack.boundaries``).
    """

    trajectories: tuple[Trajectory, ...]
    table: TurnTable
    batch: Batch
    spoken_S: IntArray
    turn_S: IntArray
    before_N: IntArray
    after_N: IntArray

    def sums(self, values_L: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The sum over each turn's policy tokens: float64[N]."""
        weights = values_L[self.spoken_S].astype(np.float64)
        sums_N = np.bincount(self.turn_S, weights=weights, minlength=self.table.n_turns)
        return sums_N.astype(np.float64, copy=False)


def nothing(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
    """Nothing to learn after this step."""
    return {}, {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """Columns of the table, and what is to be learned once credit is known."""

    columns: Columns
    lesson: Lesson = nothing


class Signal(Protocol):
    """One source of columns."""

    def measure(self, played: Played) -> Found:
        """Look at the episodes, by today's weights."""
        ...


def _as_it_is(table: TurnTable) -> TurnTable:
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """All signals of a run. ``learners`` are models of theirs that train, by name: checkpoints save them.

    ``view`` changes the table before credit and lessons see it: a negative control, which must fool a critic too.
    """

    sources: tuple[Signal, ...] = ()
    learners: Mapping[str, Learner] = field(default_factory=dict)
    view: Callable[[TurnTable], TurnTable] = _as_it_is

    def measure(self, groups: Sequence[ScoredGroup], table: TurnTable) -> tuple[TurnTable, Lesson]:
        """The table with every column, and all lessons as one."""
        if not self.sources:
            return self.view(table), nothing
        played = played_of(groups, table)
        found = [source.measure(played) for source in self.sources]
        measured = {**table.measured, "turn_S": played.turn_S}
        for one in found:
            measured.update(one.columns)

        def lesson(seen: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            columns: dict[str, FloatArray] = {}
            metrics: Metrics = {}
            for one in found:
                more, noted = one.lesson(seen)
                columns.update(more)
                metrics.update(noted)
            return columns, metrics

        return self.view(replace(table, measured=measured)), lesson


def played_of(groups: Sequence[ScoredGroup], table: TurnTable) -> Played:
    """What signals look at."""
    trajectories = tuple(trajectory for group in groups for trajectory in group.trajectories)
    batch = pack(groups, np.zeros(table.n_turns, np.float32), aggregate="sum")
    spoken_S = np.flatnonzero(batch.policy_weight_L).astype(np.int32)
    before_N, after_N = boundaries(trajectories)
    return Played(
        trajectories=trajectories,
        table=table,
        batch=batch,
        spoken_S=spoken_S,
        turn_S=rows(trajectories)[spoken_S],
        before_N=before_N,
        after_N=after_N,
    )
