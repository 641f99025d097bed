"""QAE: a quantile of the cohort as baseline instead of its mean."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, group, to_turns, validate
from turngate.trainer.credit.settings import Ddof, Eps
from turngate.types import FloatArray, IntArray, TurnTable

Quantile: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        le=1,
        description="Quantile of the siblings' payments that is subtracted (K in the paper); raise it to 0.6 if "
        "entropy collapses.",
    ),
]


def qae(table: TurnTable, *, k: Quantile = 0.4, eps: Eps = 1e-6, ddof: Ddof = 1) -> FloatArray:
    """QAE: what an episode was paid, less a quantile of its siblings' payments instead of their mean.

    ``A_i = (R_i − b) / (std + eps)``, ``b = inf{x : F(x) ≥ K}`` over the cohort, K = ``k``: float32[N].

    ``R_i`` is everything paid to the trajectory, F the share of siblings paid at most x, so b is the reward of one of
    them and never lies between two (linear interpolation would give 0.8 for three zeros and five ones). For rewards 0
    and 1 the baseline is 0 if at most a share 1 − K succeeded, which rewards the rare successes only, and else 1, which
    punishes the rare failures only.

    Source: https://arxiv.org/abs/2509.22611 (K=0.4; 0.6 where entropy collapses). Not zero-mean by design. With
    rewards other than 0 and 1 the choice of K matters. Degenerate: a cohort of one or of equal totals gives exactly 0.
    Raises ShapeError (see ``validate``), ConfigError for K outside (0, 1], eps < 0 or another ddof than 0 or 1.
    """
    if not 0.0 < k <= 1.0 or eps < 0 or ddof not in (0, 1):
        raise ConfigError(f"qae needs k in (0, 1], eps ≥ 0 and ddof 0 or 1, found k={k}, eps={eps}, ddof={ddof}")
    validate(table)
    groups = group(table.total_B, table.cohort_B)
    baseline_G = lower_quantile(groups.centred_M, table.cohort_B, k)
    scale_G = np.where(groups.degenerate_G, 1.0, groups.std_G(ddof) + eps)
    return to_turns((groups.centred_M - baseline_G[table.cohort_B]) / scale_G[table.cohort_B], table)


def lower_quantile(values_M: Float64Array, group_M: IntArray, k: float) -> Float64Array:
    """``inf{x : share of the group's values ≤ x is at least k}`` for each group: float64[G], 0 for empty groups."""
    count_G = np.bincount(group_M)
    sorted_M = values_M[np.lexsort((values_M, group_M))]
    # The smallest rank r with r/n ≥ k; the slack keeps 0.28·25 = 7.000000000000001 at rank 7.
    rank_G = np.maximum(np.ceil(k * count_G - 1e-9), 1).astype(np.int64)
    place_G = np.minimum(np.cumsum(count_G) - count_G + rank_G - 1, len(values_M) - 1)
    return np.where(count_G > 0, sorted_M[place_G], 0.0)
