"""Shared by all credit rules: checks of the table, and statistics per group that treat degenerate groups alike.

A group is degenerate if it has one member or if its values differ by no more than rounding (``rewards.columns.alike``).
The differences of its members from the mean are set to exactly 0. Otherwise rounding errors, divided by a tiny standard
deviation, would give credit to a group of equal rewards.

A trajectory without turns has entries in the columns of trajectories, but no rows. So it counts in every baseline over
trajectories, and gets no credit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError
from turngate.rewards.columns import alike
from turngate.types import BoolArray, FloatArray, TurnTable

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]


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
    if (np.diff(table.traj_N, prepend=0) < 0).any() or table.traj_N[-1] >= b:
        raise ShapeError(f"traj_N must hold 0..{b - 1} and never decrease: each trajectory's turns together")
    if not np.array_equal(table.index_N, np.arange(n) - first_turns(table)[table.traj_N]):
        raise ShapeError("index_N must count 0, 1, 2 … inside each trajectory")
    if table.cohort_B.min() < 0:
        raise ShapeError(f"cohort_B holds {table.cohort_B.min()}; cohorts are numbered from 0")
    _finite(table, "reward_N", np.isfinite(table.reward_N))
    _finite(table, "process_N", ~np.isinf(table.process_N))
    if not np.isfinite(table.outcome_B).all():
        bad = int(np.flatnonzero(~np.isfinite(table.outcome_B))[0])
        raise ShapeError(f"outcome_B is {table.outcome_B[bad]} for trajectory {bad}; outcomes must be finite")


def measured_column(table: TurnTable, name: str, method: str) -> npt.NDArray[Any]:
    """The column ``name`` of ``table.measured``. Raises ShapeError, naming ``method``, if it is missing."""
    if name not in table.measured:
        raise ShapeError(f"{method} needs column '{name}', but the table has only {sorted(table.measured)}")
    return table.measured[name]


def _expect(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise ShapeError(f"{name} has shape {found}, expected {expected}")


def _finite(table: TurnTable, name: str, good_N: BoolArray) -> None:
    if not good_N.all():
        bad = int(np.flatnonzero(~good_N)[0])
        where = f"trajectory {table.traj_N[bad]}, turn {table.index_N[bad]}"
        raise ShapeError(f"{name} is {getattr(table, name)[bad]} at {where}; rewards must be finite")


def first_turns(table: TurnTable) -> Int64Array:
    """The row of each trajectory's first turn; for one without turns, the row of the next turn after it: int64[B]."""
    return np.searchsorted(table.traj_N, np.arange(table.n_trajectories)).astype(np.int64, copy=False)


def lengths(table: TurnTable) -> Int64Array:
    """How many turns each trajectory has: int64[B]."""
    return np.bincount(table.traj_N, minlength=table.n_trajectories).astype(np.int64, copy=False)


def turnless(table: TurnTable) -> Int64Array:
    """The numbers of the trajectories without turns: int64[M]."""
    return np.flatnonzero(lengths(table) == 0).astype(np.int64, copy=False)


def per_trajectory(values_N: npt.NDArray[Any], table: TurnTable) -> Float64Array:
    """The sum over the turns of each trajectory: float64[B]."""
    total_B = np.bincount(table.traj_N, weights=values_N, minlength=table.n_trajectories)
    return total_B.astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStatistics:
    """Statistics of M values in G groups. ``centred_M`` is exactly 0 in degenerate groups.

    ``count_G`` is the number of members with a weight above 0; ``weight_G`` is the sum of their weights, which equals
    it if no weights were given.
    """

    group_M: npt.NDArray[np.integer]
    count_G: Int64Array
    weight_G: Float64Array
    mean_G: Float64Array
    degenerate_G: BoolArray
    centred_M: Float64Array
    weight_M: Float64Array | None = None

    def std_G(self, ddof: int = 1) -> Float64Array:
        """Standard deviation with divisor ``Σ weight − ddof`` (at least 1)."""
        square_M = self.centred_M**2 if self.weight_M is None else self.weight_M * self.centred_M**2
        squares_G = _sums(self.group_M, square_M, len(self.count_G))
        variance_G: Float64Array = squares_G / np.maximum(self.weight_G - ddof, 1.0)
        return np.sqrt(variance_G)

    def z_M(self, *, eps: float, ddof: int = 1, min_std: float = 0.0) -> Float64Array:
        """``centred / (max(std, min_std) + eps)``, 0 in degenerate groups."""
        scale_G = np.maximum(self.std_G(ddof), min_std) + eps
        scale_G[self.degenerate_G] = 1.0
        z_M: Float64Array = self.centred_M / scale_G[self.group_M]
        return z_M

    def leave_one_out_mean_M(self, values_M: Float64Array) -> Float64Array:
        """Mean of the other members: ``mean − centred / (weight − 1)``; for a lone member, its own value.

        Weights, if any were given, are how often the others count; a member counts once in its own group.
        """
        others_G = np.maximum(self.weight_G - 1, 1)
        mean_M: Float64Array = values_M - self.centred_M - self.centred_M / others_G[self.group_M]
        return mean_M


def group(
    values_M: Float64Array, group_M: npt.NDArray[np.integer], *, weight_M: Float64Array | None = None
) -> GroupStatistics:
    """Statistics of ``values_M`` (float64[M]) by dense group number ``group_M`` (int[M], from 0).

    ``weight_M`` (float64[M]) says how often a value counts, for instance the tokens of a turn in statistics over
    tokens. A value of weight 0 is left out of the statistics, but still gets its difference from the mean.
    """
    n_groups = int(group_M.max()) + 1 if len(group_M) else 0
    heard = slice(None) if weight_M is None else weight_M > 0
    heard_M, value_M = group_M[heard], values_M[heard]
    count_G = np.bincount(heard_M, minlength=n_groups).astype(np.int64, copy=False)
    if weight_M is None:
        weight_G, sum_G = count_G.astype(np.float64), _sums(group_M, values_M, n_groups)
    else:
        weight_G, sum_G = _sums(group_M, weight_M, n_groups), _sums(group_M, weight_M * values_M, n_groups)
    mean_G = sum_G / np.where(weight_G > 0, weight_G, 1.0)
    low_G, high_G = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(low_G, heard_M, value_M)
    np.maximum.at(high_G, heard_M, value_M)
    degenerate_G = (count_G < 2) | alike(low_G, high_G, mean_G)
    centred_M = np.where(degenerate_G[group_M], 0.0, values_M - mean_G[group_M])
    return GroupStatistics(
        group_M=group_M,
        count_G=count_G,
        weight_G=weight_G,
        mean_G=mean_G,
        degenerate_G=degenerate_G,
        centred_M=centred_M,
        weight_M=weight_M,
    )


def check_scale(method: str, *, eps: float, ddof: int = 1) -> None:
    """Raise ConfigError, naming ``method``, for invalid settings of a z-score."""
    if not eps >= 0 or ddof not in (0, 1):
        raise ConfigError(f"{method} needs eps ≥ 0 and ddof 0 or 1, found eps={eps}, ddof={ddof}")


def to_turns(advantage_B: Float64Array, table: TurnTable) -> FloatArray:
    """Give every turn the number of its trajectory: float32[N]."""
    return advantage_B.astype(np.float32)[table.traj_N]


def _sums(group_M: npt.NDArray[np.integer], values_M: Float64Array, n_groups: int) -> Float64Array:
    return np.bincount(group_M, weights=values_M, minlength=n_groups).astype(np.float64, copy=False)
