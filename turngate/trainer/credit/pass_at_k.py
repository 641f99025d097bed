"""Pass@k training: the objective is the chance that one of k tries succeeds."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, to_turns, validate
from turngate.trainer.credit.pay_sources import successes
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Threshold
from turngate.types import FloatArray, TurnTable

K: TypeAlias = Annotated[
    int,
    Field(
        ge=1,
        description="Number of tries of which one has to succeed, at most the group size; raise it for more "
        "exploration.",
    ),
]


@rule
def pass_at_k(table: TurnTable, *, k: K = 4, threshold: Threshold = None, eps: Eps = 1e-6) -> FloatArray:
    """Pass@k training: what an episode adds to the chance that one of k tries succeeds.

    Advantage of a trajectory averaged over all subsets of k siblings that hold it: float32[N].

    With n siblings of which m fail, ``P = 1 − C(m,k)/C(n,k)`` and ``σ = √(P(1−P))``:

    * a success gets ``(1 − P) / (σ + eps)``;
    * a failure gets ``(1 − P − C(m−1,k−1)/C(n−1,k−1)) / (σ + eps)``.

    A success is a trajectory whose outcome and whose total both reach ``threshold``; how much more it was paid plays
    no part. Source: https://arxiv.org/abs/2508.10751 and its code (eps); k=4 is not the paper's but half of the usual
    group of 8, and the threshold lets rewards be other than 0 and 1, which the code passes through as advantages.

    Sums to 0 over each cohort. k=1 is ``grpo`` of the successes with ddof 0. Degenerate: all or none succeeded, fewer
    failures than k, a cohort smaller than k (it cannot be asked) or of one give exactly 0. Raises ShapeError (see
    ``validate``), ConfigError for k < 1, k above the size of every cohort, or eps < 0.
    """
    if k < 1 or eps < 0:
        raise ConfigError(f"pass_at_k needs k ≥ 1 and eps ≥ 0, found k={k}, eps={eps}")
    validate(table)
    n_G = np.bincount(table.cohort_B)
    if k > n_G.max():
        raise ConfigError(f"k is {k}, but no cohort has more than {n_G.max()} trajectories; choose a smaller k")
    won_B = successes(table, threshold)
    lost_G = np.bincount(table.cohort_B, weights=~won_B).astype(np.int64)
    rate_G = 1.0 - _all_lost(lost_G, n_G, k)
    scale_G = np.sqrt(rate_G * (1.0 - rate_G)) + eps
    silent_G = (lost_G < k) | (lost_G == n_G)
    scale_G[silent_G] = np.inf
    up_G = (1.0 - rate_G) / scale_G
    down_G = (1.0 - rate_G - _all_lost(lost_G - 1, n_G - 1, k - 1)) / scale_G
    return to_turns(np.where(won_B, up_G[table.cohort_B], down_G[table.cohort_B]), table)


def _all_lost(lost_G: Int64Array, n_G: Int64Array, k: int) -> Float64Array:
    """``C(lost, k) / C(n, k)``, the chance that k draws without replacement are all failures."""
    chance_G = np.ones(len(n_G))
    for drawn in range(k):
        chance_G *= np.maximum(lost_G - drawn, 0) / np.maximum(n_G - drawn, 1)
    return chance_G
