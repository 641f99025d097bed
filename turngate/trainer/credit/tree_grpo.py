"""Tree-GRPO: compares a trajectory with all siblings, and again with those of its own tree."""

import numpy as np

from turngate.trainer.credit.baselines import non_negative
from turngate.trainer.credit.cohorts import Float64Array, group, to_turns, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.trainer.credit.tree import grow
from turngate.types import FloatArray, TurnTable


@rule
def tree_grpo(table: TurnTable, *, eps: Eps = 1e-6) -> FloatArray:
    """Tree-GRPO: for branched rollouts: GRPO among all siblings plus GRPO inside each tree.

    ``A = z over the cohort + z over the tree``, the same for all turns of a trajectory: float32[N].

    ``z(R) = (R − mean) / (std + eps)`` (ddof 1) of everything paid. Trajectories of a cohort are of one tree if their
    chains of parents begin at the same trajectory, wherever they branched.

    Source: https://arxiv.org/abs/2509.21240 and its code, where a tree of one adds its raw reward; here it adds 0. The
    variant that chains both z is left out: the second cancels the first.

    Branches: both baselines hold leaves that share the turn, so early turns learn less. Two trees of two leaves that
    branch after turn 1, paid 0 or 1, keep 0.95 of turn 1's policy gradient and 2.12 of turn 2's (``docs/branching.md``
    has such factors for every rule). One tree teaches its first turn nothing.

    Sums to 0 over the trajectories of each tree (second part) and cohort (both). Degenerate: without branches every
    trajectory is its own tree, and this is ``grpo``. A cohort of one or of equal totals gives exactly 0. Raises
    ShapeError (see ``validate`` and ``tree.branches``), ConfigError for eps < 0.
    """
    non_negative("tree_grpo", eps=eps)
    validate(table)
    origin_B = grow(table, "tree_grpo").origin_B
    _, tree_B = np.unique(origin_B * (int(table.cohort_B.max()) + 1) + table.cohort_B, return_inverse=True)
    across_B = group(table.total_B, table.cohort_B).z_M(eps=eps)
    within_B: Float64Array = group(table.total_B, tree_B).z_M(eps=eps)
    return to_turns(across_B + within_B, table)
