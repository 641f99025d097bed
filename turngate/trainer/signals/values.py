"""A critic's values, and the returns that it learns once credit is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.trainer.learner import Learner
from turngate.trainer.signals.base import Found, Played
from turngate.types import FloatArray, IntArray, Metrics, TurnTable

VARIED = 1e-12  # returns with less variance have nothing to explain


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """A critic's values: ``value_N`` before each turn, or ``value_S`` before each policy token (``per_token``).

    ``targets`` computes the returns that the critic learns from the table, in the same shape as its values
    (``CreditRule.value_targets``). With ``bootstrap`` there is a column ``bootstrap_B``: the critic's value of the
    state in which a truncated episode stopped, and 0 for a finished one. That state lies after the agent's last tokens
    and before the environment's reply, which was not recorded. The critic therefore also learns states of this kind
    where it is known what followed: the next return, or 0 after a finished episode.
    """

    learner: Learner
    targets: Callable[[TurnTable], FloatArray]
    per_token: bool = False
    bootstrap: bool = True

    def measure(self, played: Played) -> Found:
        at_M = played.spoken_S - 1 if self.per_token else played.before_N
        wanted_L = np.zeros(played.batch.n_tokens, np.bool_)
        wanted_L[at_M] = True
        if self.bootstrap:
            wanted_L[played.after_N] = True
        value_L = self.learner.values(played.batch, wanted_L)
        columns: dict[str, npt.NDArray[Any]] = {"value_S" if self.per_token else "value_N": value_L[at_M]}
        if self.bootstrap:
            columns["bootstrap_B"] = self._bootstrap(played, value_L)

        def after_credit(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            target_M = self.targets(table)
            return self._returns(played, at_M, target_M) | {"old_value_L": value_L}, explained(value_L[at_M], target_M)

        return Found(columns=columns, after_credit=after_credit)

    @staticmethod
    def _bootstrap(played: Played, value_L: FloatArray) -> FloatArray:
        """The value of the state in which each truncated trajectory stopped; 0 for finished ones and ones without
        turns."""
        table = played.table
        cut_B = np.array([trajectory.ending.truncated for trajectory in played.trajectories])
        last_M = np.flatnonzero(np.append(table.index_N[1:] == 0, True) & cut_B[table.traj_N])
        bootstrap_B = np.zeros(table.n_trajectories, np.float32)
        bootstrap_B[table.traj_N[last_M]] = value_L[played.after_N[last_M]]
        return bootstrap_B

    def _returns(self, played: Played, at_M: IntArray, target_M: FloatArray) -> dict[str, FloatArray]:
        """``return_L`` and ``value_weight_L``, whose weights make the loss a mean over all states that have a
        target."""
        return_L = np.zeros(played.batch.n_tokens, np.float32)
        taught_L = np.zeros(played.batch.n_tokens, np.bool_)
        if self.bootstrap:
            place_M, after_M = self._afterwards(played, target_M)
            return_L[place_M], taught_L[place_M] = after_M, True
        return_L[at_M], taught_L[at_M] = target_M, True
        return {"return_L": return_L, "value_weight_L": (taught_L / max(1, taught_L.sum())).astype(np.float32)}

    def _afterwards(self, played: Played, target_M: FloatArray) -> tuple[IntArray, FloatArray]:
        """States after a turn, and their targets: the return of what comes next, 0 after the end."""
        table = played.table
        row_M = played.turn_S if self.per_token else np.arange(table.n_turns)
        next_N = np.searchsorted(row_M, np.arange(table.n_turns), side="right")
        reachable_N = np.minimum(next_N, len(row_M) - 1)
        goes_on_N = (next_N < len(row_M)) & (table.traj_N[row_M[reachable_N]] == table.traj_N)
        last_N = np.append(table.index_N[1:] == 0, True)
        finished_B = np.array([trajectory.ending.terminated for trajectory in played.trajectories])
        known_N = goes_on_N | (last_N & finished_B[table.traj_N])
        after_N = np.where(goes_on_N, target_M[reachable_N], 0)
        return played.after_N[known_N], after_N[known_N].astype(np.float32)


def explained(value_M: FloatArray, return_M: FloatArray) -> Metrics:
    """``value/explained_variance``, ``1 − Var(G − V)/Var(G)``: 1 is perfect, 0 is a constant, below 0 is worse.

    G are the returns, V the critic's values before the update. Missing where all returns are equal. ``value/mean`` is
    the mean of V and ``value/return`` the mean of G.
    """
    found = {"value/mean": float(value_M.mean()), "value/return": float(return_M.mean())}
    spread = float(return_M.var(dtype=np.float64))
    if spread > VARIED:
        found["value/explained_variance"] = 1 - float((return_M - value_M).var(dtype=np.float64)) / spread
    return found
