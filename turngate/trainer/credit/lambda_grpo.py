"""λ-GRPO: a turn that siblings share counts once, not once per sibling."""

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import group, validate
from turngate.trainer.credit.tree import grow
from turngate.types import FloatArray, TurnTable


def lambda_grpo(table: TurnTable, *, eps: float = 1e-4, ddof: int = 1, std: bool = True) -> FloatArray:
    """``A_{i,t} = z_i / |λ_{i,t}|``, λ = the siblings that share the turn and all before it: float32[N].

    z is ``grpo``'s advantage of the trajectory (``std=False``: only centred). Dividing the advantage by |λ| divides
    the policy loss of the turn by |λ|; a KL penalty in the loss is not divided. Which turns are shared is read from
    ``measured["parent_B"]`` and ``measured["branch_B"]``: trajectories that were sampled apart share nothing here,
    even if they wrote the same; for those there is ``tokens.prefix_weights``.

    Source: https://arxiv.org/abs/2509.21154 (its eps is 1e-4). Without branches it is ``grpo`` with this eps.
    Not zero-mean over a cohort. Degenerate: a cohort of one or of equal totals gives exactly 0. Raises ShapeError (see
    ``validate`` and ``tree.branches``), ConfigError for eps < 0 or another ddof than 0 or 1.
    """
    if eps < 0 or ddof not in (0, 1):
        raise ConfigError(f"lambda_grpo needs eps ≥ 0 and ddof 0 or 1, found eps={eps}, ddof={ddof}")
    validate(table)
    groups = group(table.total_B, table.cohort_B)
    advantage_B = groups.z_M(eps=eps, ddof=ddof) if std else groups.centred_M
    tree = grow(table, "lambda_grpo")
    return (advantage_B[table.traj_N] / tree.visits_G[tree.node_N]).astype(np.float32)
