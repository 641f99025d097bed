"""ARPO: how branches share the credit of the turns that they have in common."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from turngate.trainer.credit.baselines import as_credit, non_negative, one_of
from turngate.trainer.credit.cohorts import group, to_turns, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.trainer.credit.tree import branches, grow
from turngate.types import FloatArray, TurnTable

Mode: TypeAlias = Annotated[
    Literal["soft", "hard"],
    Field(
        description="How a turn that several branches share gets credit. soft: it is trained once in each of them, "
        "with the credit of that branch; hard: its credit is the mean over the branches."
    ),
]


@rule
def arpo(table: TurnTable, *, mode: Mode = "soft", eps: Eps = 1e-6) -> FloatArray:
    """ARPO: for branched rollouts: GRPO over all branches of a task.

    ``A = z(R)`` over all branches of the cohort ("soft"); shared turns get the branches' mean ("hard"): float32[N].

    ``z(R) = (R − mean) / (std + eps)`` (ddof 1) of everything paid. Under "soft" a shared turn is part of several
    trajectories with different credit, and the loss averages over them; with equal weights both modes have the same
    gradient.

    Source: https://arxiv.org/abs/2507.19849, "soft" is its default. Branches are correlated: n of them carry
    less information than n independent samples. Its baseline holds leaves that share the turn, so early turns learn
    less: in two trees of two leaves that branch after turn 1, paid 0 or 1, 0.95 of turn 1's policy gradient against
    1.41 of turn 2's (see ``docs/branching.md``). ``grpo`` compares a turn with the leaves that do not share it.

    Degenerate: without branches both modes are ``grpo``. A cohort of one or of equal totals gives exactly
    0. Raises ShapeError (see ``validate`` and ``tree.branches``), ConfigError for eps < 0 or an unknown
    mode.
    """
    non_negative("arpo", eps=eps)
    one_of("arpo", "mode", mode, ("soft", "hard"))
    validate(table)
    soft_B = group(table.total_B, table.cohort_B).z_M(eps=eps)
    if mode == "soft":
        branches(table, "arpo")
        return to_turns(soft_B, table)
    tree = grow(table, "arpo")
    return as_credit(tree.mean_G(soft_B[table.traj_N])[tree.node_N])
