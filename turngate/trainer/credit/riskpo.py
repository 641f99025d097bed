"""RiskPO: bundles of tasks are judged by their bad tail instead of their mean."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, group, to_turns, validate
from turngate.trainer.credit.settings import Eps
from turngate.types import FloatArray, TurnTable

Bundle: TypeAlias = Annotated[
    int, Field(ge=1, description="Tasks that are bundled; more of them give partial successes a signal on hard tasks.")
]
QLow: TypeAlias = Annotated[
    float | None,
    Field(
        description="Score of a bundle at the lower quantile, if you know it from earlier batches; leave it out "
        "to take it from the batch."
    ),
]
QHigh: TypeAlias = Annotated[
    float | None, Field(description="Score of a bundle at the upper quantile; give both or neither.")
]
TauLow: TypeAlias = Annotated[
    float, Field(ge=0, le=1, description="Lower quantile: bundles with scores below it weigh most.")
]
TauHigh: TypeAlias = Annotated[
    float,
    Field(ge=0, le=1, description="Upper quantile: bundles with scores above it get no credit; 0.9 on easy data."),
]
Mix: TypeAlias = Annotated[
    float,
    Field(description="Weight of the bundles below the lower quantile; those between the quantiles have 1.", ge=0),
]
Split: TypeAlias = Annotated[
    Literal["uniform", "sum_mean"],
    Field(
        description="How a bundle's credit is shared: uniform: each episode gets all of it; sum_mean: by its "
        "difference from its siblings, as in the code."
    ),
]


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

    ``mixed_value_at_risk(S) / (std + eps)`` of the paper that a trajectory belongs to, split up: float32[N].

    ``bundle`` cohorts in the order of their numbers form a bundle; the j-th siblings of all its cohorts form its j-th
    paper, with score S = Σ of everything paid to them. A last bundle of fewer cohorts has its scores scaled up to full
    size. Trajectories beyond the smallest cohort of a bundle belong to no paper and get 0. The quantiles ``q_low`` and
    ``q_high`` of S at ``tau_low`` and ``tau_high`` are tracked over batches in the paper's code; left out, they are
    those of the bundle's own papers (linear interpolation).

    * "uniform" gives every member the credit of the paper;
    * "sum_mean" gives member i the share ``(R_i − mean of its cohort) / Σ of these over the paper``, and equal shares
      where that sum is 0. Credit of a paper is never positive, so in a paper that did better than the mean this pushes
      its failures *up*: the rule of the code, kept as it is.

    Source: https://arxiv.org/abs/2510.00911 and its code (bundles of 5, n=10, mix 1.5; tau_high 0.9 on easy data). Not
    zero-mean: the best papers get 0, all others less. The order of siblings decides who shares a paper, and cohorts of
    a bundle act on each other. Degenerate: a bundle with one paper or with equal scores gives exactly 0 (published
    code divides by eps there). Raises ShapeError (see ``validate``), ConfigError for bundle < 1, for τ or q that are
    not ordered, for one q without the other, mix < 0, eps < 0 or an unknown split.
    """
    if bundle < 1 or mix < 0 or eps < 0 or split not in ("uniform", "sum_mean"):
        raise ConfigError(
            f"riskpo needs bundle ≥ 1, mix ≥ 0, eps ≥ 0 and split 'uniform' or 'sum_mean', "
            f"found {bundle}, {mix}, {eps}, '{split}'"
        )
    _check_levels(q_low, q_high, tau_low, tau_high)
    validate(table)
    papers = _papers(table, bundle)
    stats = group(papers.score_P, papers.bundle_P)
    low_P, high_P = _quantiles(papers, (q_low, q_high), (tau_low, tau_high))
    risk_P = mixed_value_at_risk(papers.score_P, low_P, high_P, tau_low=tau_low, tau_high=tau_high, mix=mix)
    scale_G = np.where(stats.degenerate_G, np.inf, stats.std_G() + eps)
    credit_P = risk_P / scale_G[papers.bundle_P]
    advantage_B = np.zeros(table.n_trajectories)
    share_M = _shares(table, papers) if split == "sum_mean" else 1.0
    advantage_B[papers.member_M] = credit_P[papers.paper_M] * share_M
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
class _Papers:
    """P papers, sorted by bundle, and the M trajectories in them."""

    score_P: Float64Array
    bundle_P: Int64Array
    member_M: Int64Array
    paper_M: Int64Array


def _check_levels(q_low: float | None, q_high: float | None, tau_low: float, tau_high: float) -> None:
    if not 0.0 < tau_low < tau_high < 1.0:
        raise ConfigError(f"riskpo needs 0 < tau_low < tau_high < 1, found {tau_low} and {tau_high}")
    if (q_low is None) != (q_high is None):
        raise ConfigError(f"riskpo needs both quantiles or none, found q_low={q_low} and q_high={q_high}")
    if q_low is not None and q_high is not None and not q_low <= q_high:
        raise ConfigError(f"riskpo needs q_low ≤ q_high, found {q_low} and {q_high}")


def _papers(table: TurnTable, bundle: int) -> _Papers:
    """Complete papers only: as many per bundle as its smallest cohort has trajectories."""
    _, cohort_B, size_G = np.unique(table.cohort_B, return_inverse=True, return_counts=True)
    order = np.argsort(cohort_B, kind="stable")
    place_B = np.empty(len(order), np.int64)
    place_B[order] = np.arange(len(order)) - (np.cumsum(size_G) - size_G)[cohort_B[order]]
    starts = np.arange(0, len(size_G), bundle)
    papers_W = np.minimum.reduceat(size_G, starts)
    cohorts_W = np.diff(starts, append=len(size_G))
    bundle_B = cohort_B // bundle
    member_M = np.flatnonzero(place_B < papers_W[bundle_B])
    paper_M = (np.cumsum(papers_W) - papers_W)[bundle_B[member_M]] + place_B[member_M]
    bundle_P = np.repeat(np.arange(len(starts)), papers_W)
    score_P = np.bincount(paper_M, weights=table.total_B[member_M]) * bundle / cohorts_W[bundle_P]
    return _Papers(score_P=score_P, bundle_P=bundle_P, member_M=member_M, paper_M=paper_M)


def _quantiles(
    papers: _Papers, given: tuple[float | None, float | None], taus: tuple[float, float]
) -> tuple[Float64Array, Float64Array]:
    low, high = (
        _own_quantile(papers, tau) if q is None else np.full(len(papers.score_P), q)
        for q, tau in zip(given, taus, strict=True)
    )
    return low, high


def _own_quantile(papers: _Papers, tau: float) -> Float64Array:
    """Linearly interpolated quantile of the papers in the same bundle, for each paper."""
    sorted_P = papers.score_P[np.lexsort((papers.score_P, papers.bundle_P))]
    count_W = np.bincount(papers.bundle_P)
    position_W = tau * (count_W - 1)
    below_W = np.floor(position_W).astype(np.int64)
    start_W = np.cumsum(count_W) - count_W
    low_W = sorted_P[start_W + below_W]
    high_W = sorted_P[start_W + np.minimum(below_W + 1, count_W - 1)]
    quantile_P: Float64Array = (low_W + (position_W - below_W) * (high_W - low_W))[papers.bundle_P]
    return quantile_P


def _shares(table: TurnTable, papers: _Papers) -> Float64Array:
    """What part of its paper's credit each member gets; the shares of a paper sum to 1."""
    beyond_M = group(table.total_B, table.cohort_B).centred_M[papers.member_M]
    sum_M = np.bincount(papers.paper_M, weights=beyond_M)[papers.paper_M]
    size_M = np.bincount(papers.paper_M)[papers.paper_M]
    balanced_M = np.abs(sum_M) <= 1e-6
    return np.where(balanced_M, 1.0 / size_M, beyond_M / np.where(balanced_M, 1.0, sum_M))
