"""What every estimator shares: checks of the table, and statistics per group with one policy for degenerate groups.

A group is degenerate if it has one member or if its values differ by no more than rounding (range ≤ 1e-6 · max(1,
|mean|)). Its members are all at the mean, exactly: without that snap a float32 group of equal rewards would train.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.types import BoolArray, FloatArray, TurnTable

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
ZERO_RANGE = 1e-6


def validate(table: TurnTable) -> None:
    """Raise ShapeError for columns that do not fit together, an empty table, or a reward that is not finite."""
    n, b = table.n_turns, table.n_trajectories
    for name in ("reward_N", "process_N", "open_N", "traj_N", "index_N", "state_N"):
        _expect(name, getattr(table, name).shape, (n,))
    for name in ("outcome_B", "cohort_B"):
        _expect(name, getattr(table, name).shape, (b,))
    turn_S = table.measured.get("turn_S")
    tokens = (0,) if turn_S is None else turn_S.shape
    for name, array in table.measured.items():
        _expect(name, array.shape, (n,) if name.endswith("_N") else tokens if name.endswith("_S") else (b,))
    if not n:
        raise ShapeError("the table has no turns; check what the filters dropped before asking for credit")
    if table.traj_N[0] < 0 or table.traj_N[-1] >= b or (np.diff(table.traj_N) < 0).any():
        raise ShapeError(f"traj_N must stay in 0..{b - 1} and never go down: each trajectory's turns lie together")
    if not np.array_equal(table.index_N, np.arange(n) - first_turns(table)[table.traj_N]):
        raise ShapeError("index_N must count 0, 1, 2 … inside each trajectory")
    if table.cohort_B.min() < 0:
        raise ShapeError(f"cohort_B holds {table.cohort_B.min()}; cohorts are numbered from 0")
    _finite(table, "reward_N", np.isfinite(table.reward_N))
    _finite(table, "process_N", ~np.isinf(table.process_N))
    if not np.isfinite(table.outcome_B).all():
        bad = int(np.flatnonzero(~np.isfinite(table.outcome_B))[0])
        raise ShapeError(f"outcome_B is {table.outcome_B[bad]} for trajectory {bad}; outcomes must be finite")


def measured(table: TurnTable, name: str, method: str) -> npt.NDArray[Any]:
    """The column ``name`` of ``table.measured``. Raises ShapeError, naming ``method``, if nobody measured it."""
    if name not in table.measured:
        raise ShapeError(f"{method} needs column '{name}', but the table has measured only {sorted(table.measured)}")
    return table.measured[name]


def _expect(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise ShapeError(f"{name} has shape {found}, expected {expected}")


def _finite(table: TurnTable, name: str, good_N: BoolArray) -> None:
    if not good_N.all():
        bad = int(np.flatnonzero(~good_N)[0])
        where = f"trajectory {table.traj_N[bad]}, turn {table.index_N[bad]}"
        raise ShapeError(f"{name} is {getattr(table, name)[bad]} at {where}; rewards must be finite")


def lengths(table: TurnTable) -> Int64Array:
    """The number of turns of each trajectory, 0 for one that ended before its first: int64[B]."""
    return np.bincount(table.traj_N, minlength=table.n_trajectories).astype(np.int64, copy=False)


def first_turns(table: TurnTable) -> Int64Array:
    """The row of each trajectory's first turn, for one without turns the row where it would stand: int64[B]."""
    length_B = lengths(table)
    return np.cumsum(length_B) - length_B


def at_start(values_N: Float64Array, table: TurnTable) -> Float64Array:
    """The value at each trajectory's first turn, and what was paid to one that has no turn: float64[B]."""
    start_B = table.total_B.copy()
    start_B[lengths(table) > 0] = values_N[table.index_N == 0]
    return start_B


def turnless(table: TurnTable) -> Int64Array:
    """The trajectories without turns, which are a result but no row: int64[M]."""
    return np.flatnonzero(lengths(table) == 0).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """Statistics of M values in G groups. ``centred_M`` is exactly 0 in degenerate groups."""

    group_M: npt.NDArray[np.integer]
    count_G: Int64Array
    mean_G: Float64Array
    degenerate_G: BoolArray
    centred_M: Float64Array

    def std_G(self, ddof: int = 1) -> Float64Array:
        """Standard deviation with divisor ``count − ddof`` (at least 1)."""
        squares_G = _sums(self.group_M, self.centred_M**2, len(self.count_G))
        variance_G: Float64Array = squares_G / np.maximum(self.count_G - ddof, 1)
        return np.sqrt(variance_G)

    def z_M(self, *, eps: float, ddof: int = 1) -> Float64Array:
        """``centred / (std + eps)``, 0 in degenerate groups."""
        scale_G = self.std_G(ddof) + eps
        scale_G[self.degenerate_G] = 1.0
        z_M: Float64Array = self.centred_M / scale_G[self.group_M]
        return z_M

    def leave_one_out_mean_M(self, values_M: Float64Array) -> Float64Array:
        """Mean of the other members: ``mean − centred / (count − 1)``; a member that is alone meets itself."""
        others_G = np.maximum(self.count_G - 1, 1)
        mean_M: Float64Array = values_M - self.centred_M - self.centred_M / others_G[self.group_M]
        return mean_M


def group(values_M: Float64Array, group_M: npt.NDArray[np.integer]) -> Groups:
    """Statistics of ``values_M`` (float64[M]) by dense group number ``group_M`` (int[M], from 0)."""
    n_groups = int(group_M.max()) + 1 if len(group_M) else 0
    count_G = np.bincount(group_M, minlength=n_groups).astype(np.int64, copy=False)
    mean_G = _sums(group_M, values_M, n_groups) / np.maximum(count_G, 1)
    low_G, high_G = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low_G, group_M, values_M)
    np.maximum.at(high_G, group_M, values_M)
    degenerate_G = (count_G < 2) | (high_G - low_G <= ZERO_RANGE * np.maximum(1.0, np.abs(mean_G)))
    centred_M = np.where(degenerate_G[group_M], 0.0, values_M - mean_G[group_M])
    return Groups(group_M=group_M, count_G=count_G, mean_G=mean_G, degenerate_G=degenerate_G, centred_M=centred_M)


def to_turns(advantage_B: Float64Array, table: TurnTable) -> FloatArray:
    """Give every turn the number of its trajectory: float32[N]."""
    return advantage_B.astype(np.float32)[table.traj_N]


def _sums(group_M: npt.NDArray[np.integer], values_M: Float64Array, n_groups: int) -> Float64Array:
    return np.bincount(group_M, weights=values_M, minlength=n_groups).astype(np.float64, copy=False)
