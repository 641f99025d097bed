"""MaxRL: the gradient of the log of the success rate instead of the success rate."""

import math
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable

Cap: TypeAlias = Annotated[
    float,
    Field(
        gt=0,
        description="Largest credit of an episode; lower it to keep a rare success from dominating. inf: no "
        "bound, as published.",
    ),
]


@rule
def maxrl(table: TurnTable, *, cap: Cap = math.inf, eps: Eps = 1e-6) -> FloatArray:
    """MaxRL: what an episode was paid, less the siblings' mean, divided by that mean: rare successes weigh more.

    ``A_i = min((R_i − mean) / (mean + eps), cap)`` over the cohort, the same for all turns: float32[N].

    ``R_i`` is everything paid to the trajectory. Source: https://arxiv.org/abs/2602.02710. Rare successes weigh more:
    one among n gets n−1. ``cap`` bounds that and is not the paper's, which has none (infinite); with a cap the sum
    over the cohort is no longer 0.

    It is ``dr_grpo`` divided by the mean. Degenerate: a cohort of one or of equal totals gives exactly 0 (published
    code divides the raw reward by eps there). Raises ShapeError (see ``validate``) and for a negative total, which has
    no logarithm; ConfigError for a cap that is not positive or eps < 0.
    """
    if not cap > 0 or eps < 0:
        raise ConfigError(f"maxrl needs cap > 0 and eps ≥ 0, found cap={cap}, eps={eps}")
    validate(table)
    if table.total_B.min() < 0:
        i = int(table.total_B.argmin())
        raise ShapeError(
            f"maxrl needs totals of at least 0, but trajectory {i} was paid {table.total_B[i]:g}; "
            "use rloo or dr_grpo where rubrics pay penalties"
        )
    compared = siblings(table)
    groups = compared.group(table.total_B)
    scale_G = np.where(groups.degenerate_G, 1.0, groups.mean_G + eps)
    return compared.to_turns(np.minimum(groups.centred_M / scale_G[groups.group_M], cap))
