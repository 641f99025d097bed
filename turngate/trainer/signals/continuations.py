"""Values of states from several continuations of each: the columns value_N and count_N of branched rollouts."""

from __future__ import annotations

from typing import Literal

import numpy as np

from turngate.trainer.credit.cohorts import Float64Array, Int64Array, first_turns
from turngate.trainer.credit.returns import reward_to_go
from turngate.trainer.credit.tree import branches
from turngate.trainer.signals.base import Found, Played
from turngate.types import TurnTable


class ContinuationValues:
    """A signal: ``continuation_values`` of the payments from the turn on ("paid"), or of the outcome ("outcome")."""

    def __init__(self, of: Literal["paid", "outcome"]) -> None:
        self._of = of

    def measure(self, played: Played) -> Found:
        """``value_N`` float32 and ``count_N`` int32."""
        table = played.table
        if self._of == "outcome":
            worth_N = table.outcome_B[table.traj_N].astype(np.float64)
        else:
            worth_N = reward_to_go(table, 1.0)
        value_N, count_N = continuation_values(table, worth_N)
        return Found(columns={"value_N": value_N.astype(np.float32), "count_N": count_N.astype(np.int32)})


def continuation_values(table: TurnTable, worth_N: Float64Array) -> tuple[Float64Array, Int64Array]:
    """The mean worth of the continuations of the state before each turn, and their number: float64[N], int64[N].

    ``V(s) = mean of worth over the trajectory that came to s first and those that branched off there``.

    ``worth_N`` is what each trajectory was worth from each turn on. Trajectories that branched off later are left out:
    they share the next turn of the first one, so they are no independent continuations of s. A state from which nothing
    branched has a count of 1 and its own worth as value. Where the places of branches do not depend on what comes after
    them, V is an unbiased estimate of the policy's value. Raises ShapeError as ``credit.tree.branches`` does.
    """
    parent_B, branch_B = branches(table, "continuation_values")
    owner_N = table.traj_N.astype(np.int64)  # the trajectory that came to the state first
    while (later_N := (parent_B[owner_N] >= 0) & (table.index_N <= branch_B[owner_N])).any():
        owner_N = np.where(later_N, parent_B[owner_N], owner_N)
    state_N = first_turns(table)[owner_N] + table.index_N
    sample_N = (parent_B[table.traj_N] < 0) | (table.index_N >= branch_B[table.traj_N])
    total_G = np.bincount(state_N, weights=np.where(sample_N, worth_N, 0.0), minlength=table.n_turns)
    count_G = np.bincount(state_N, weights=sample_N, minlength=table.n_turns)
    value_N: Float64Array = (total_G / np.maximum(count_G, 1))[state_N]
    return value_N, count_G[state_N].astype(np.int64)
