"""What a signal is: a source of table columns that credit reads beside the rewards.

Before credit is computed, every ``Signal`` looks at the episodes that are learned from and fills in columns of the turn
table, for instance a critic's values. A signal that holds a model to be trained also returns a function
``AfterCredit``, which is called once credit is known: a critic then learns returns, an implicit reward model outcomes.
A run has only those signals whose columns its credit rule reads (``turngate.run.assembly.credit.signals_of``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.trainer.batch.pack import boundaries, pack, rows
from turngate.trainer.learner import Learner
from turngate.types import Batch, FloatArray, IntArray, Metrics, ScoredGroup, Trajectory, TurnTable

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
AfterCredit: TypeAlias = Callable[[TurnTable], tuple[Mapping[str, FloatArray], Metrics]]
"""What a signal does once credit is known, called once per step with the table that credit was computed from.

It returns columns [L] for the policy's learner (``measured`` of ``forward_backward``, such as the returns that a critic
learns), and metrics. A signal with a model of its own trains it here."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Played:
    """The episodes of a step that are learned from: as trajectories, as a table, and as a batch without credit yet.

    ``spoken_S`` are the indices of the policy tokens in ``batch``, and ``turn_S`` the row of the table that each
    belongs to. ``before_N`` and ``after_N`` are, for each turn, the indices of the last token before the agent writes
    and of the last token that it writes (``pack.boundaries``).
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
    """For signals without anything to train: no columns, no metrics."""
    return {}, {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """What a signal returns: columns of the table, and what to do once credit is known."""

    columns: Columns
    after_credit: AfterCredit = nothing


class Signal(Protocol):
    """One source of table columns."""

    def measure(self, played: Played) -> Found:
        """The columns for these episodes, under the weights of this step before its update."""
        ...


def _as_it_is(table: TurnTable) -> TurnTable:
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """All signals of a run.

    ``learners`` are the models that signals train, by name; checkpoints save them. ``view`` changes the finished table
    before credit and the signals' training see it. A negative control uses it to pay at random, because its critic must
    learn from the same false payments as its policy.
    """

    sources: tuple[Signal, ...] = ()
    learners: Mapping[str, Learner] = field(default_factory=dict)
    view: Callable[[TurnTable], TurnTable] = _as_it_is

    def measure(self, groups: Sequence[ScoredGroup], table: TurnTable) -> tuple[TurnTable, AfterCredit]:
        """The table with the columns of all signals, and one function that calls every signal's ``AfterCredit``."""
        if not self.sources:
            return self.view(table), nothing
        played = played_of(groups, table)
        found = [source.measure(played) for source in self.sources]
        measured = {**table.measured, "turn_S": played.turn_S}
        for one in found:
            measured.update(one.columns)

        def after_credit(seen: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            columns: dict[str, FloatArray] = {}
            metrics: Metrics = {}
            for one in found:
                more, noted = one.after_credit(seen)
                columns.update(more)
                metrics.update(noted)
            return columns, metrics

        return self.view(replace(table, measured=measured)), after_credit


def played_of(groups: Sequence[ScoredGroup], table: TurnTable) -> Played:
    """What signals are handed: the kept groups with their table, packed."""
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
