"""RiskPO: scores of several tasks are added up, and credit depends on the lowest sums instead of the mean."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, group, to_turns, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.types import FloatArray, TurnTable

Bundle: TypeAlias = Annotated[
    int,
    Field(
        ge=1,
        description="Number of tasks that are scored together; with more of them, partial success on hard tasks "
        "counts.",
    ),
]
QLow: TypeAlias = Annotated[
    float | None,
    Field(
        description="Score at the lower quantile, if it is known from earlier batches; leave it out to take it from "
        "the batch."
    ),
]
QHigh: TypeAlias = Annotated[float | None, Field(description="Score at the upper quantile; set both or neither.")]
TauLow: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="Lower quantile, from 0 to 1: scores below it weigh most.")
]
TauHigh: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Upper quantile, from 0 to 1: scores above it get no credit; raise it to 0.9 for easy tasks.",
    ),
]
Mix: TypeAlias = Annotated[
    float,
    Field(description="Weight of scores below the lower quantile; those between the quantiles have weight 1.", ge=0),
]
Split: TypeAlias = Annotated[
    Literal["uniform", "sum_mean"],
    Field(
        description="How the credit of episodes that are scored together is split. uniform: each gets all of it; "
        "sum_mean: in proportion to its difference from its siblings, as in the code."
    ),
]


@rule
def riskpo(
    table: TurnTable,
    *,
    bundle: Bundle = 5,
    q_low: QLow = None,
    q_high: QHigh = None,
    tau_low: TauLow = 0.2,
    tau_high: TauHigh = 0.8,
    mix: Mix = 1.5,
    split: Split = "uniform",
    eps: Eps = 1e-6,
) -> FloatArray:
    """RiskPO: the siblings of several tasks are bundled, and bundles with low scores are blamed most.

    ``mixed_value_at_risk(S) / (std + eps)`` of the set that a trajectory belongs to, split up: float32[N].

    ``bundle`` cohorts in the order of their numbers form a bundle. The j-th siblings of all its cohorts form its j-th
    set, whose score S is the sum of everything paid to them. The scores of a last bundle of fewer cohorts are scaled up
    to full size. Trajectories beyond the smallest cohort of a bundle belong to no set and get 0. The authors' code
    tracks the quantiles ``q_low`` and ``q_high`` of S at ``tau_low`` and ``tau_high`` over batches; left out, they are
    those of the bundle's own sets (linear interpolation).

    * "uniform" gives every member the credit of its set;
    * "sum_mean" gives member i the share ``(R_i − mean of its cohort) / Σ of these over the set``, and equal shares
      where that sum is 0. The credit of a set is never positive, so in a set that did better than the mean this raises
      the credit of its *failures*; this is kept from the authors' code.

    Source: https://arxiv.org/abs/2510.00911 and its code (bundles of 5, n=10, mix 1.5; tau_high 0.9 on easy data). Not
    zero-mean: the best sets get 0, all others less. The order of siblings decides which form a set, and the credit of a
    cohort depends on the others of its bundle. Degenerate: a bundle with one set or with equal scores gives exactly 0
    (published code divides by eps there). Raises ShapeError (see ``validate``), ConfigError for bundle < 1, for τ or q
    that are not ordered, for one q without the other, mix < 0, eps < 0 or an unknown split.
    """
    if bundle < 1 or mix < 0 or eps < 0 or split not in ("uniform", "sum_mean"):
        raise ConfigError(
            f"riskpo needs bundle ≥ 1, mix ≥ 0, eps ≥ 0 and split 'uniform' or 'sum_mean', "
            f"found {bundle}, {mix}, {eps}, '{split}'"
        )
    _check_levels(q_low, q_high, tau_low, tau_high)
    validate(table)
    sets = _sets(table, bundle)
    stats = group(sets.score_P, sets.bundle_P)
    low_P, high_P = _quantiles(sets, (q_low, q_high), (tau_low, tau_high))
    risk_P = mixed_value_at_risk(sets.score_P, low_P, high_P, tau_low=tau_low, tau_high=tau_high, mix=mix)
    scale_G = np.where(stats.degenerate_G, np.inf, stats.std_G() + eps)
    credit_P = risk_P / scale_G[sets.bundle_P]
    advantage_B = np.zeros(table.n_trajectories)
    share_M = _shares(table, sets) if split == "sum_mean" else 1.0
    advantage_B[sets.member_M] = credit_P[sets.set_M] * share_M
    return to_turns(advantage_B, table)


def mixed_value_at_risk(
    score_P: Float64Array,
    q_low: float | Float64Array,
    q_high: float | Float64Array,
    *,
    tau_low: float = 0.2,
    tau_high: float = 0.8,
    mix: float = 1.5,
) -> Float64Array:
    """``(mix · CVaR + RVaR) / (mix + 1)`` of each score: float64[P], at most 0.

    ``RVaR = ((S − q_d)⁺ − (S − q_u)⁺ + q_d − q_u) / (τ_u − τ_d)`` rises between the two quantiles;
    ``CVaR = −(q_d − S)⁺ / τ_d`` rises up to the lower one.
    """
    middle_P = np.maximum(score_P - q_low, 0.0) - np.maximum(score_P - q_high, 0.0) + q_low - q_high
    tail_P = -np.maximum(q_low - score_P, 0.0) / tau_low
    risk_P: Float64Array = (mix * tail_P + middle_P / (tau_high - tau_low)) / (mix + 1.0)
    return risk_P


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sets:
    """P sets of trajectories, sorted by bundle, and the M trajectories in them."""

    score_P: Float64Array
    bundle_P: Int64Array
    member_M: Int64Array
    set_M: Int64Array


def _check_levels(q_low: float | None, q_high: float | None, tau_low: float, tau_high: float) -> None:
    if not 0.0 < tau_low < tau_high < 1.0:
        raise ConfigError(f"riskpo needs 0 < tau_low < tau_high < 1, found {tau_low} and {tau_high}")
    if (q_low is None) != (q_high is None):
        raise ConfigError(f"riskpo needs both quantiles or none, found q_low={q_low} and q_high={q_high}")
    if q_low is not None and q_high is not None and not q_low <= q_high:
        raise ConfigError(f"riskpo needs q_low ≤ q_high, found {q_low} and {q_high}")


def _sets(table: TurnTable, bundle: int) -> _Sets:
    """The complete sets: as many per bundle as its smallest cohort has trajectories."""
    _, cohort_B, size_G = np.unique(table.cohort_B, return_inverse=True, return_counts=True)
    order = np.argsort(cohort_B, kind="stable")
    place_B = np.empty(len(order), np.int64)
    place_B[order] = np.arange(len(order)) - (np.cumsum(size_G) - size_G)[cohort_B[order]]
    starts = np.arange(0, len(size_G), bundle)
    sets_W = np.minimum.reduceat(size_G, starts)
    cohorts_W = np.diff(starts, append=len(size_G))
    bundle_B = cohort_B // bundle
    member_M = np.flatnonzero(place_B < sets_W[bundle_B])
    set_M = (np.cumsum(sets_W) - sets_W)[bundle_B[member_M]] + place_B[member_M]
    bundle_P = np.repeat(np.arange(len(starts)), sets_W)
    score_P = np.bincount(set_M, weights=table.total_B[member_M]) * bundle / cohorts_W[bundle_P]
    return _Sets(score_P=score_P, bundle_P=bundle_P, member_M=member_M, set_M=set_M)


def _quantiles(
    sets: _Sets, given: tuple[float | None, float | None], taus: tuple[float, float]
) -> tuple[Float64Array, Float64Array]:
    low, high = (
        _own_quantile(sets, tau) if q is None else np.full(len(sets.score_P), q)
        for q, tau in zip(given, taus, strict=True)
    )
    return low, high


def _own_quantile(sets: _Sets, tau: float) -> Float64Array:
    """For each set, the linearly interpolated quantile of the scores in its bundle."""
    sorted_P = sets.score_P[np.lexsort((sets.score_P, sets.bundle_P))]
    count_W = np.bincount(sets.bundle_P)
    position_W = tau * (count_W - 1)
    below_W = np.floor(position_W).astype(np.int64)
    start_W = np.cumsum(count_W) - count_W
    low_W = sorted_P[start_W + below_W]
    high_W = sorted_P[start_W + np.minimum(below_W + 1, count_W - 1)]
    quantile_P: Float64Array = (low_W + (position_W - below_W) * (high_W - low_W))[sets.bundle_P]
    return quantile_P


def _shares(table: TurnTable, sets: _Sets) -> Float64Array:
    """Each member's share of the credit of its set; the shares of a set sum to 1."""
    beyond_M = group(table.total_B, table.cohort_B).centred_M[sets.member_M]
    sum_M = np.bincount(sets.set_M, weights=beyond_M)[sets.set_M]
    size_M = np.bincount(sets.set_M)[sets.set_M]
    balanced_M = np.abs(sum_M) <= 1e-6
    return np.where(balanced_M, 1.0 / size_M, beyond_M / np.where(balanced_M, 1.0, sum_M))
