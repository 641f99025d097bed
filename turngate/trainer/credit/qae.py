"""QAE: a quantile of the cohort as baseline instead of its mean."""

from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable

Quantile: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        le=1,
        description="Quantile of the siblings' payments that is subtracted (K in the paper); raise it to 0.6 if "
        "entropy collapses.",
    ),
]


@rule
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
    compared = siblings(table)
    groups = compared.group(table.total_B)
    baseline_G = lower_quantile(groups.centred_M, groups.group_M, k, weight_M=compared.weight_M)
    scale_G = np.where(groups.degenerate_G, 1.0, groups.std_G(ddof) + eps)
    return compared.to_turns((groups.centred_M - baseline_G[groups.group_M]) / scale_G[groups.group_M])


def lower_quantile(
    values_M: Float64Array,
    group_M: npt.NDArray[np.integer],
    k: float,
    *,
    weight_M: Float64Array | None = None,
) -> Float64Array:
    """``inf{x : share of the group's values ≤ x is at least k}`` for each group: float64[G], 0 for empty groups.

    ``weight_M`` says how often each value counts; None = once.
    """
    order = np.lexsort((values_M, group_M))
    sorted_M, by_group_M = values_M[order], group_M[order]
    weighed_M = np.ones(len(order)) if weight_M is None else weight_M[order]
    total_G = np.bincount(by_group_M, weights=weighed_M)
    before_G = np.cumsum(total_G) - total_G
    # The first value at which the weights add up to k; the slack keeps 0.28·25 = 7.000000000000001 at rank 7.
    reached_M = np.flatnonzero(np.cumsum(weighed_M) - before_G[by_group_M] >= (k * total_G)[by_group_M] - 1e-9)
    quantile_G = np.zeros(len(total_G))
    groups_R, first_R = np.unique(by_group_M[reached_M], return_index=True)
    quantile_G[groups_R] = sorted_M[reached_M[first_R]]
    return quantile_G
