"""EMPG: confident turns get more of the credit, and a turn that leads to a confident one gets a bonus."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.trainer.credit.baselines import (
    as_credit,
    cohorts,
    non_negative,
    one_of,
    without_siblings,
    z_beyond_siblings,
)
from turngate.trainer.credit.cohorts import Float64Array, group, validate
from turngate.trainer.credit.pay_sources import column, last_turns
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.types import BoolArray, FloatArray, TurnTable

Sharpness: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="How much more credit a confident turn gets than an uncertain one (k in the paper); 0: the same "
        "for all.",
    ),
]
NextSharpness: TypeAlias = Annotated[
    float,
    Field(
        ge=0, description="How fast the bonus falls with the uncertainty of the next turn; 0: the same bonus for all."
    ),
]
Zeta: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Size of the bonus for a turn that leads to a confident next one (ζ in the paper); 0: no bonus.",
    ),
]
Scope: TypeAlias = Annotated[
    Literal["batch", "cohort"],
    Field(
        description="Over which turns uncertainty is scaled: the whole batch, as published, or the siblings of "
        "one task."
    ),
]


@rule(reads=("entropy_N",))
def empg(
    table: TurnTable,
    *,
    k: Sharpness = 1.0,
    k_next: NextSharpness = 1.0,
    zeta: Zeta = 0.05,
    scope: Scope = "batch",
    eps: Eps = 1e-6,
) -> FloatArray:
    """EMPG: GRPO with more credit for confident turns, and a bonus for turns that lead to confident ones.

    ``A'_t = A · g_t + ζ exp(−k_next · H̃_{t+1})``, minus its mean: float32[N].

    A is ``grpo(eps=eps)``; ``H̃`` is the mean entropy of a turn's tokens, scaled to [0, 1] by the smallest and largest:
    ``measured["entropy_N"]`` if it was measured, else its estimate ``measured["surprisal_N"]``;
    ``g_t = exp(−k H̃_t) / mean exp(−k H̃)``. A last turn has no bonus. Smallest, largest and means are over the turns
    of the whole batch, as published: credit of one task then depends on the others. ``scope="cohort"`` takes them per
    cohort.

    Source: https://arxiv.org/abs/2509.09265, k = k_next = 1, ζ=0.05. Known weakness: the final subtraction of the mean
    can make good turns negative, and a single outlier determines the scale.

    Degenerate: equal entropies have H̃=0 and g=1. A turn without entropy keeps A, counts in no statistic and gives no
    bonus; without any entropy this is ``grpo``. Equal totals leave the bonus only. A cohort of one gives exactly 0 and
    is in no statistic. Raises ShapeError (see ``validate``; ``surprisal_N`` missing or infinite), ConfigError for a
    negative setting or an unknown scope.
    """
    non_negative("empg", k=k, k_next=k_next, zeta=zeta, eps=eps)
    one_of("empg", "scope", scope, ("batch", "cohort"))
    validate(table)
    name = "entropy_N" if "entropy_N" in table.measured else "surprisal_N"
    entropy_N = np.where(without_siblings(table), np.nan, column(table, name, "empg", missing=True))
    advantage_N = z_beyond_siblings(table.total_B, table, eps=eps)
    pool_N = cohorts(table) if scope == "cohort" else np.zeros(table.n_turns, np.int32)
    modulated_N = modulate(advantage_N, entropy_N, pool_N, last_turns(table), k=k, k_next=k_next, zeta=zeta)
    return as_credit(modulated_N)


def modulate(
    advantage_N: Float64Array,
    entropy_N: Float64Array,
    pool_N: npt.NDArray[np.integer],
    final_N: BoolArray,
    *,
    k: float = 1.0,
    k_next: float = 1.0,
    zeta: float = 0.05,
) -> Float64Array:
    """EMPG's rule for any advantage, with statistics per pool (int[N], from 0): float64[N].

    ``final_N`` marks the last turn of each trajectory. Turns with NaN entropy keep their advantage.
    """
    known = np.flatnonzero(~np.isnan(entropy_N))
    pool_M = pool_N[known]
    scaled_N = np.full(len(entropy_N), np.nan)
    scaled_N[known] = _scale(entropy_N[known], pool_M)
    damp_M = np.exp(-k * scaled_N[known])
    next_M = np.where(final_N, np.nan, np.append(scaled_N[1:], np.nan))[known]
    bonus_M = np.where(np.isnan(next_M), 0.0, zeta * np.exp(-k_next * next_M))
    shaped_M = advantage_N[known] * damp_M / _mean(damp_M, pool_M) + bonus_M
    result_N = advantage_N.astype(np.float64)
    result_N[known] = shaped_M - _mean(shaped_M, pool_M)
    return result_N


def _scale(values_M: Float64Array, pool_M: npt.NDArray[np.integer]) -> Float64Array:
    """``(x − low) / (high − low)`` per pool, 0 where all are equal."""
    groups = group(values_M, pool_M)
    low_G, high_G = np.full(len(groups.count_G), np.inf), np.full(len(groups.count_G), -np.inf)
    np.minimum.at(low_G, pool_M, values_M)
    np.maximum.at(high_G, pool_M, values_M)
    flat_M = groups.degenerate_G[pool_M]
    range_M = np.where(flat_M, np.inf, (high_G - low_G)[pool_M])
    scaled_M: Float64Array = (values_M - low_G[pool_M]) / range_M
    return scaled_M


def _mean(values_M: Float64Array, pool_M: npt.NDArray[np.integer]) -> Float64Array:
    """The mean of each value's pool."""
    mean_M: Float64Array = group(values_M, pool_M).mean_G[pool_M]
    return mean_M
