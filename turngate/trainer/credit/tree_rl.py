"""TreeRL: credit is how much the mean payment after a turn exceeds the task's mean and that of the turn before."""

import numpy as np

from turngate.trainer.credit.baselines import as_credit
from turngate.trainer.credit.cohorts import group, validate
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.tree import grow
from turngate.types import FloatArray, TurnTable


@rule
def tree_rl(table: TurnTable) -> FloatArray:
    """TreeRL: for branched rollouts: the mean payment after a turn, less that of the task and that of the turn before.

    ``A = ((V − V(root)) + (V − V(node above))) / sqrt(trajectories through the node)``: float32[N].

    ``V`` is the mean of everything paid to the trajectories through a node, ``V(root)`` that of the cohort.

    Branches: a turn counts in each of its k leaves, so the square root leaves √k of it. In two trees of two leaves that
    branch after turn 1, turn 1 keeps √2/2 of its policy gradient and turn 2 5/4, exactly (see ``docs/branching.md``).

    Source: https://arxiv.org/abs/2506.11902; the square root was seen in its code. Not zero-mean.

    Degenerate: equal totals and a cohort of one give exactly 0. A cohort that shares no turn is no tree: the second
    part is 0 there, and this is ``grpo(std=False)``. Raises ShapeError (see ``validate`` and ``tree.branches``).
    """
    validate(table)
    tree = grow(table, "tree_rl")
    value_G = tree.mean_G(group(table.total_B, table.cohort_B).centred_M[table.traj_N])
    advantage_G = (value_G + tree.rise_G(value_G)) / np.sqrt(tree.visits_G)
    return as_credit(advantage_G[tree.node_N])
