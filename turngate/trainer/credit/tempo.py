"""TEMPO: the outcome between trajectories, plus what each turn changed in the value of the prefix."""

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import group, validate
from turngate.trainer.credit.signals import as_credit, non_negative
from turngate.trainer.credit.tree import grow
from turngate.types import FloatArray, TurnTable


def tempo(table: TurnTable, *, scale_td: bool = True, eps: float = 1e-6, ddof: int = 1) -> FloatArray:
    """``A_t = (R − mean + V(s_{t+1}) − V(s_t)) / (std + eps)``: float32[N].

    ``V`` of a prefix is the mean of everything paid to the trajectories of the cohort that share it; mean and std are
    over the cohort. The difference is 0 wherever all that came along go on together. ``scale_td=False`` leaves the
    difference undivided, as the abstract reads; reviews of the paper confirm the division.

    Source: https://arxiv.org/abs/2509.18314. There prefixes are matched by token ids; here they are what a branched
    rollout shares.

    Degenerate: equal totals and a cohort of one give exactly 0. A cohort that shares no turn is no tree: the
    difference is 0 there, and this is ``grpo``. Raises ShapeError (see ``validate`` and ``tree.branches``), ConfigError
    for eps < 0 or another ddof than 0 or 1.
    """
    non_negative("tempo", eps=eps)
    if ddof not in (0, 1):
        raise ConfigError(f"tempo: ddof is {ddof}; it must be 0 or 1")
    validate(table)
    tree = grow(table, "tempo")
    groups = group(table.total_B, table.cohort_B)
    td_G = tree.rise_G(tree.mean_G(groups.centred_M[table.traj_N]))
    if scale_td:
        scale_G = np.where(groups.degenerate_G, 1.0, groups.std_G(ddof) + eps)
        td_G = td_G / scale_G[tree.cohort_G]
    return as_credit(groups.z_M(eps=eps, ddof=ddof)[table.traj_N] + td_G[tree.node_N])
