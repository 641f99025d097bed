"""RLOO: a trajectory against the mean of the others."""

import numpy as np

from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable


@rule
def rloo(table: TurnTable) -> FloatArray:
    """RLOO: what an episode was paid, less the mean of the other siblings.

    ``A_i = R_i − mean_{k≠i} R_k = n/(n−1) · (R_i − mean)`` in the cohort, the same for all turns: float32[N].

    Source: https://arxiv.org/abs/2402.14740. No division by a std, so the gradient keeps the scale of the reward.
    Where siblings branched, the others are those that do not share the turn (see ``siblings``), and the gradient is
    that of the expected payment, turn by turn.

    Degenerate: a cohort of one or of equal totals gives exactly 0. Raises ShapeError (see ``validate``).
    """
    validate(table)
    compared = siblings(table)
    groups = compared.group(table.total_B)
    factor_G = groups.weight_G / np.maximum(groups.weight_G - 1, 1)
    return compared.to_turns(groups.centred_M * factor_G[groups.group_M])
