"""Shared by rules that read something beside payments: sums along a trajectory, and baselines of siblings.

NaN means that a turn was not measured. Such a turn is left out of every mean, std and sum, and never counts as 0. A
trajectory without siblings cannot be compared, so every rule gives it 0. Where siblings branched off each other, those
that share a turn are no siblings of each other at it (see ``siblings``).
"""

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import (
    Float64Array,
    Int64Array,
    first_turns,
    group,
    lengths,
    per_trajectory,
    turnless,
)
from turngate.trainer.credit.pay_sources import column
from turngate.trainer.credit.scans import goes_on, scan_back
from turngate.trainer.credit.siblings import siblings
from turngate.types import BoolArray, FloatArray, IntArray, TurnTable

OutcomeSource: TypeAlias = Literal["earned", "settled"]


def non_negative(method: str, **settings: float) -> None:
    """Raise ConfigError, naming the setting, for a value below 0 or NaN."""
    for name, value in settings.items():
        if not value >= 0:
            raise ConfigError(f"{method}: {name} is {value}; it must be ≥ 0")


def unit_interval(method: str, **settings: float) -> None:
    """Raise ConfigError, naming the setting, for a value outside [0, 1]."""
    for name, value in settings.items():
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{method}: {name} is {value}; it must lie in [0, 1]")


def one_of(method: str, name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise ConfigError, naming the setting, if ``value`` is not allowed."""
    if value not in allowed:
        raise ConfigError(f"{method}: {name} is '{value}'; it must be one of: {', '.join(allowed)}")


def outcomes(table: TurnTable, source: OutcomeSource, method: str) -> Float64Array:
    """The outcome that a rule combines with process verdicts: float64[B].

    "settled" is ``measured["settled_B"]``: everything that was paid except for process verdicts, so the outcome after
    all gates, with penalties and the floor of a veto. An episode that succeeded by a forbidden act counts what it was
    paid. "earned" is ``table.outcome_B``, before any gate, where the same episode is a success. Raises ConfigError for
    another source, ShapeError if ``settled_B`` is missing or not finite.
    """
    one_of(method, "outcome", source, ("earned", "settled"))
    return table.outcome_B.astype(np.float64) if source == "earned" else column(table, "settled_B", method)


def cohorts(table: TurnTable) -> IntArray:
    """The cohort of each turn: int32[N]."""
    return table.cohort_B[table.traj_N]


def without_siblings(table: TurnTable) -> BoolArray:
    """The turns of trajectories without a sibling: bool[N]."""
    alone_B = np.bincount(table.cohort_B)[table.cohort_B] < 2
    return alone_B[table.traj_N]


def turns_left(table: TurnTable) -> Int64Array:
    """How many turns follow in the trajectory: int64[N]."""
    return lengths(table)[table.traj_N] - 1 - table.index_N


def to_go(values_N: Float64Array, table: TurnTable, gamma: float = 1.0) -> Float64Array:
    """``G_t = x_t + γ G_{t+1}`` inside each trajectory: float64[N]."""
    return scan_back(values_N, np.where(goes_on(table.traj_N), gamma, 0.0))


def z_of(
    values_N: Float64Array,
    keep_N: BoolArray,
    group_N: npt.NDArray[np.integer],
    *,
    eps: float,
    ddof: int = 1,
    min_std: float = 0.0,
    weight_N: Float64Array | None = None,
) -> Float64Array:
    """``(x − mean) / (max(std, min_std) + eps)`` with the statistics of the kept turns of each group: float64[N].

    ``weight_N`` says how often a turn counts (its tokens). Turns that are not kept, and those of degenerate groups, get
    exactly 0.
    """
    z_N = np.zeros(len(values_N))
    weight_M = None if weight_N is None else weight_N[keep_N]
    groups = group(values_N[keep_N], group_N[keep_N], weight_M=weight_M)
    z_N[keep_N] = groups.z_M(eps=eps, ddof=ddof, min_std=min_std)
    return z_N


def z_among_siblings(
    reward_N: Float64Array, keep_N: BoolArray, table: TurnTable, *, eps: float, ddof: int = 1
) -> Float64Array:
    """``z_of`` rewards over the kept turns of all siblings together: float64[N], 0 where there is no sibling.

    A trajectory without turns counts as one turn that was paid everything that the trajectory was.
    """
    without_M = turnless(table)
    reward_M = np.append(reward_N, table.total_B[without_M])
    cohort_M = np.append(cohorts(table), table.cohort_B[without_M])
    keep_M = np.append(keep_N, np.ones(len(without_M), np.bool_)) & (np.bincount(table.cohort_B)[cohort_M] > 1)
    return z_of(reward_M, keep_M, cohort_M, eps=eps, ddof=ddof)[: table.n_turns]


def beyond_siblings(values_B: Float64Array, table: TurnTable) -> Float64Array:
    """For each turn, its trajectory minus the mean of its siblings, 0 where there is none: float64[N]."""
    compared = siblings(table)
    groups = compared.group(values_B)
    factor_G = groups.weight_G / np.maximum(groups.weight_G - 1, 1)
    advantage_M: Float64Array = groups.centred_M * factor_G[groups.group_M]
    return advantage_M[compared.own_N]


def z_beyond_siblings(
    values_B: Float64Array,
    table: TurnTable,
    *,
    eps: float,
    ddof: int = 1,
    min_std: float = 0.0,
    std: bool = True,
) -> Float64Array:
    """For each turn, ``(x − mean) / (max(std, min_std) + eps)`` of its trajectory among its siblings: float64[N].

    ``std=False`` leaves the division out.
    """
    compared = siblings(table)
    groups = compared.group(values_B)
    z_M = groups.z_M(eps=eps, ddof=ddof, min_std=min_std) if std else groups.centred_M
    return z_M[compared.own_N]


def beyond_start(to_go_N: Float64Array, table: TurnTable, silent_B: Float64Array) -> Float64Array:
    """``G_t − mean of the other siblings' G_0``: float64[N], 0 where there is none.

    ``to_go_N`` is what each turn's trajectory earns from it on; ``silent_B`` is ``G_0`` of those without any turn.
    """
    start_B = np.where(lengths(table) > 0, to_go_N[np.minimum(first_turns(table), table.n_turns - 1)], silent_B)
    compared = siblings(table)
    others_M = compared.group(start_B).leave_one_out_mean_M(start_B[compared.member_M])
    return np.where(compared.alone_N, 0.0, to_go_N - others_M[compared.own_N])


def with_outcome(
    step_N: Float64Array, outcome_B: Float64Array, table: TurnTable, baseline: Literal["rloo", "none"]
) -> Float64Array:
    """``G_t = Σ_{s≥t} r_s + o``, minus the mean of the other siblings' ``G_0`` under "rloo": float64[N].

    ``step_N`` is r, NaN where a turn has none.
    """
    sum_N = to_go(np.nan_to_num(step_N, nan=0.0), table) + outcome_B[table.traj_N]
    return sum_N if baseline == "none" else beyond_start(sum_N, table, outcome_B)


def rate_baseline(step_N: Float64Array, weight_N: Float64Array, table: TurnTable) -> Float64Array:
    """``Σ_{s≥t} (x_s − w_s · b)``, b = mean over the siblings of their ``Σ x / Σ w``: float64[N].

    With tokens as weights, every token is compared with the siblings' mean per token. A trajectory without weight has
    no rate and counts in no baseline. One that has no sibling with a rate gets 0.
    """
    base_N = mean_rate(per_trajectory(step_N, table), per_trajectory(weight_N, table), table)
    known_N = np.nan_to_num(base_N)
    if siblings(table).weight_M is None:  # one b for the whole trajectory
        sum_N = to_go(step_N - weight_N * known_N, table)
    else:
        sum_N = to_go(step_N, table) - known_N * to_go(weight_N, table)
    return np.where(np.isnan(base_N), 0.0, sum_N)


def mean_rate(step_B: Float64Array, weight_B: Float64Array, table: TurnTable) -> Float64Array:
    """For each turn, the mean of the siblings' ``Σ x / Σ w``: float64[N], NaN where the own or all others have none."""
    compared = siblings(table)
    rated_B = weight_B > 0
    rate_B = np.divide(step_B, weight_B, out=np.zeros(len(step_B)), where=rated_B)
    groups = compared.group(rate_B, weight=rated_B.astype(np.float64))
    compared_M = rated_B[compared.member_M] & (groups.count_G[groups.group_M] > 1)
    base_M = np.where(compared_M, groups.leave_one_out_mean_M(rate_B[compared.member_M]), np.nan)
    return base_M[compared.own_N]


def as_credit(advantage_N: Float64Array) -> FloatArray:
    """The finished advantage: float32[N]."""
    return advantage_N.astype(np.float32, copy=False)
