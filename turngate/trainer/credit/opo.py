"""OPO: the baseline of least variance if the squared norm of the gradient grows with the length."""

import numpy as np

from turngate.trainer.credit.cohorts import per_trajectory, validate
from turngate.trainer.credit.pay_sources import tokens
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.siblings import siblings
from turngate.types import FloatArray, TurnTable


@rule
def opo(table: TurnTable) -> FloatArray:
    """OPO: what an episode was paid, less its siblings' mean weighted by length, a baseline of low variance.

    ``A_i = R_i − b``, ``b = Σ l_k R_k / Σ l_k`` over the cohort, l = policy tokens: float32[N].

    The variance of the gradient is least for ``b = E[‖∇ log π‖² R] / E[‖∇ log π‖²]``; taking the squared norm as
    proportional to the length gives the formula. Reads ``measured["tokens_N"]``. No division by a std. Source:
    https://arxiv.org/abs/2505.23585, which also asks for exact on-policy updates.

    Becomes ``dr_grpo`` if all lengths are equal or none has tokens. ``Σ l_i A_i = 0`` in each cohort; the plain sum is
    not 0. Degenerate: a cohort of one or of equal totals gives exactly 0. Raises ShapeError (see ``validate``), also
    without ``tokens_N``.
    """
    validate(table)
    length_B = per_trajectory(tokens(table, "opo"), table)
    compared = siblings(table)
    groups = compared.group(table.total_B)
    length_M = length_B[compared.member_M] * (1.0 if compared.weight_M is None else compared.weight_M)
    n_groups = len(groups.count_G)
    weight_G = np.bincount(groups.group_M, weights=length_M, minlength=n_groups)
    surplus_G = np.bincount(groups.group_M, weights=length_M * groups.centred_M, minlength=n_groups)
    shift_G = surplus_G / np.where(weight_G > 0, weight_G, 1.0)
    return compared.to_turns(groups.centred_M - shift_G[groups.group_M])
