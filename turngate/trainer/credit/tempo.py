"""TEMPO: compares trajectories, and adds how much each turn changed the value of the prefix that siblings share."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, one_of
from turngate.trainer.credit.cohorts import check_scale, group, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Ddof, Eps, Merged
from turngate.trainer.credit.tree import MERGES, grow
from turngate.types import FloatArray, TurnTable

ScaleTd: TypeAlias = Annotated[
    bool,
    Field(
        description="Whether what a turn adds is divided by the siblings' standard deviation, as the rest of credit is."
    ),
]


@rule
def tempo(
    table: TurnTable, *, merge: Merged = "tokens", scale_td: ScaleTd = True, eps: Eps = 1e-6, ddof: Ddof = 1
) -> FloatArray:
    """TEMPO: GRPO plus what each turn adds to the mean payment of the siblings that share its beginning.

    ``A_t = (R − mean + V(s_{t+1}) − V(s_t)) / (std + eps)``: float32[N].

    ``V`` of a prefix is the mean of everything paid to the trajectories of the cohort that share it; mean and std are
    over the cohort. The difference is 0 where all siblings that share a prefix also share the next turn. ``merge`` says
    when two siblings share a prefix: "tokens", as published, if its token ids are the same; "action_observation" if
    they saw and did the same, whatever they thought; "recorded" if one branched off the other (see ``credit.tree``).
    ``scale_td=False`` leaves the difference undivided, as the abstract reads; reviews of the paper confirm the
    division.

    Source: https://arxiv.org/abs/2509.18314, which compares token by token; here whole turns. Known weakness: freely
    sampled thoughts never coincide, and it becomes ``grpo``; watch ``shared_turns.merged_share``.

    Branches: mean and values hold leaves that share the turn, so early turns learn less: in two trees of two leaves
    that branch after turn 1, paid 0 or 1, 1.90 of turn 1's policy gradient against 2.37 of turn 2's (see
    ``docs/branching.md``).

    Degenerate: equal totals and a cohort of one give exactly 0. A cohort that shares no turn is no tree: the
    difference is 0 there, and this is ``grpo``. Raises ShapeError (see ``validate`` and ``tree.grow``), ConfigError for
    eps < 0, another ddof than 0 or 1 or an unknown ``merge``.
    """
    check_scale("tempo", eps=eps, ddof=ddof)
    one_of("tempo", "merge", merge, MERGES)
    validate(table)
    tree = grow(table, "tempo", merge)
    groups = group(table.total_B, table.cohort_B)
    td_G = tree.rise_G(tree.mean_G(groups.centred_M[table.traj_N]))
    if scale_td:
        scale_G = np.where(groups.degenerate_G, 1.0, groups.std_G(ddof) + eps)
        td_G = td_G / scale_G[tree.cohort_G]
    return as_credit(groups.z_M(eps=eps, ddof=ddof)[table.traj_N] + td_G[tree.node_N])
