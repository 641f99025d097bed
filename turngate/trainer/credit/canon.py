"""CANON: splits a cohort by a second measure, and compares trajectories across and inside the two halves."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, lengths, per_trajectory, validate
from turngate.trainer.credit.pay_sources import column, tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, IntArray, TurnTable

Measure: TypeAlias = Annotated[
    Literal["surprisal", "tokens", "turns"],
    Field(
        description="What the siblings are split by: policy tokens, number of turns, or surprisal (mean −log "
        "probability of the sampled tokens)."
    ),
]
Mu: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        description="Weight of the comparison with the other half (μ in the paper); 1 − μ is that of the comparison "
        "inside the own half. A larger one follows the half that does better.",
    ),
]


@rule
def canon(table: TurnTable, *, by: Measure = "tokens", mu: Mu = 0.5) -> FloatArray:
    """CANON: siblings are split into halves by length or entropy, and an episode is compared with both halves.

    ``A = μ (R − mean of the other half) + (1 − μ) (R − mean of the own half)``: float32[N].

    The halves are the siblings with a low and a high measure: policy ``tokens`` of the trajectory, their mean
    ``surprisal`` (−log π, the sampled entropy), or the number of ``turns``. A larger μ follows the half that does
    better, whichever it is; a smaller one compares like with like. Nothing is divided by a std. Reads
    ``measured["tokens_N"]`` and, for surprisal, ``measured["surprisal_N"]``.

    In cohorts of odd size the middle one belongs to the low half. Published code breaks ties by position; here
    siblings with equal measures at the border belong to both halves in equal shares, so their order does not matter.

    Source: https://arxiv.org/abs/2509.23962. μ=½ with equal halves, and any μ if all measures tie, is ``dr_grpo``.
    Sums to 0 over cohorts of even size. The measure may depend on the difficulty of the task. Degenerate: a cohort of
    one or of equal totals gives exactly 0. Raises ShapeError (see ``validate``), also without the columns,
    ConfigError for an unknown measure or μ outside [0, 1].
    """
    if by not in ("surprisal", "tokens", "turns") or not 0.0 <= mu <= 1.0:
        raise ConfigError(f"canon needs by 'surprisal', 'tokens' or 'turns' and mu in [0, 1], found '{by}' and {mu}")
    validate(table)
    compared = siblings(table)
    x_M = compared.group(table.total_B).centred_M
    low_M = low_half(_measure(table, by), table.cohort_B)[compared.member_M]
    weight_M = np.ones(len(x_M)) if compared.weight_M is None else compared.weight_M
    from_low_M = x_M - _weighted_mean(x_M, weight_M * low_M, compared.group_M)
    from_high_M = x_M - _weighted_mean(x_M, weight_M * (1.0 - low_M), compared.group_M)
    if_low_M = mu * from_high_M + (1.0 - mu) * from_low_M
    if_high_M = mu * from_low_M + (1.0 - mu) * from_high_M
    return compared.to_turns(low_M * if_low_M + (1.0 - low_M) * if_high_M)


def low_half(measure_B: Float64Array, cohort_B: IntArray) -> Float64Array:
    """The share of each trajectory that belongs to the low half of its cohort: 1, 0, or between at a tie: float64[B].

    A cohort of one has no halves; its share is 1.
    """
    order = np.lexsort((measure_B, cohort_B))
    cohort_M, measure_M = cohort_B[order], measure_B[order]
    tie_M = np.cumsum((np.diff(cohort_M, prepend=-1) != 0) | (np.diff(measure_M, prepend=np.nan) != 0)) - 1
    members_G = np.bincount(cohort_B)
    place_M = np.arange(len(order)) - (np.cumsum(members_G) - members_G)[cohort_M]
    size_T = np.bincount(tie_M)
    start_M = (place_M[np.cumsum(size_T) - size_T])[tie_M]
    share_M = np.clip(((members_G[cohort_M] + 1) // 2 - start_M) / size_T[tie_M], 0.0, 1.0)
    share_B = np.empty(len(order))
    share_B[order] = share_M
    return share_B


def _measure(table: TurnTable, by: str) -> Float64Array:
    if by == "turns":
        return lengths(table).astype(np.float64)
    tokens_N = tokens(table, "canon")
    if by == "tokens":
        return per_trajectory(tokens_N, table)
    surprisal_N = column(table, "surprisal_N", "canon", missing=True)
    known_N = np.where(np.isnan(surprisal_N), 0.0, tokens_N)
    sum_B = per_trajectory(np.nan_to_num(surprisal_N) * known_N, table)
    mean_B: Float64Array = sum_B / np.maximum(per_trajectory(known_N, table), 1.0)
    return mean_B


def _weighted_mean(x_M: Float64Array, weight_M: Float64Array, group_M: npt.NDArray[np.integer]) -> Float64Array:
    weight_G = np.bincount(group_M, weights=weight_M)
    total_G = np.bincount(group_M, weights=weight_M * x_M)
    mean_M: Float64Array = (total_G / np.where(weight_G > 0, weight_G, 1.0))[group_M]
    return mean_M
