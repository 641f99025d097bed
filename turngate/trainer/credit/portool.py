"""PORTool: compares a turn with the other turns that were tried after the same beginning."""

from typing import Annotated, TypeAlias

import numpy as np
from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, non_negative, turns_left, unit_interval
from turngate.trainer.credit.cohorts import group, validate
from turngate.trainer.credit.pay_sources import column
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps, Gamma
from turngate.trainer.credit.tree import grow
from turngate.types import FloatArray, TurnTable

OmegaTrajectory: TypeAlias = Annotated[
    float, Field(ge=0, description="Weight of the comparison with all siblings (ω in the paper).")
]
OmegaFork: TypeAlias = Annotated[
    float,
    Field(
        ge=0, description="Weight of the comparison with the other branches that follow the same turn (ω in the paper)."
    ),
]
ForkStd: TypeAlias = Annotated[
    bool,
    Field(
        description="Whether the difference between branches is divided by their standard deviation. Two branches then "
        "always get ±0.7, however close they are."
    ),
]
FormatWeight: TypeAlias = Annotated[
    float,
    Field(
        ge=0,
        description="Reward for a tool call that is well formed and was executed; above 0 it needs the column format_N "
        "(see signals.evidence).",
    ),
]


@rule(reads=("format_N",))
def portool(
    table: TurnTable,
    *,
    gamma: Gamma = 0.95,
    omega_trajectory: OmegaTrajectory = 1.0,
    omega_fork: OmegaFork = 1.0,
    fork_std: ForkStd = False,
    format_weight: FormatWeight = 0.0,
    eps: Eps = 1e-6,
) -> FloatArray:
    """PORTool: for branched rollouts: GRPO plus a comparison of the branches that follow the same turn.

    ``A = ω_trajectory · z(R_i) + ω_fork · (R(s) − mean of the siblings' R)``: float32[N].

    ``R(s)`` of a node s is the mean over the trajectories through it of ``γ^{turns left} · R_i``, plus
    ``format_weight · measured["format_N"]`` (1 where the tool call was well formed and executed). Siblings are the
    nodes that follow the same node, or begin the cohort. ``fork_std=True`` divides by ``std + eps`` (ddof 1).

    Source: https://arxiv.org/abs/2510.26020. Formula, ω and format weight are reconstructions (a second description
    has ω=0.5 and format weight 0.1), γ=0.95 as reported. With ``fork_std`` two siblings always get ±0.7071 however
    close they are; hence False. γ < 1 makes necessary long paths look worse.

    Branches: the baseline over all siblings holds leaves that share the turn, so early turns learn less: in two trees
    of two leaves that branch after turn 1, paid 0 or 1, 1.42 of turn 1's policy gradient against 1.91 of turn 2's (see
    ``docs/branching.md``).

    Degenerate: an only child, and a cohort of equal totals, has fork part 0; so has a cohort that shares no turn: it is
    no tree, and this is ω_trajectory times ``grpo``. A cohort of one gives exactly 0. Raises ShapeError (see
    ``validate`` and ``tree.branches``; ``format_N`` missing or not finite), ConfigError for a setting out of range.
    """
    unit_interval("portool", gamma=gamma)
    weights = {"omega_trajectory": omega_trajectory, "omega_fork": omega_fork, "format_weight": format_weight}
    non_negative("portool", eps=eps, **weights)
    validate(table)
    tree = grow(table, "portool")
    leaves = group(table.total_B, table.cohort_B)
    value_N = gamma ** turns_left(table) * table.total_B[table.traj_N]
    if format_weight:
        value_N += format_weight * column(table, "format_N", "portool")
    fork = group(tree.mean_G(value_N), tree.family_G)
    fork_G = fork.z_M(eps=eps) if fork_std else fork.centred_M
    fork_G = np.where(tree.forked_G & ~leaves.degenerate_G[tree.cohort_G], fork_G, 0.0)
    advantage_N = omega_trajectory * leaves.z_M(eps=eps)[table.traj_N] + omega_fork * fork_G[tree.node_N]
    return as_credit(advantage_N)
