"""TreeRPO: compares nodes that follow the same node; a node's value is the mean of its children's."""

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from turngate.errors import ShapeError
from turngate.trainer.credit.baselines import as_credit, non_negative, one_of
from turngate.trainer.credit.cohorts import Float64Array, GroupStatistics, group, per_trajectory, turnless, validate
from turngate.trainer.credit.pay_sources import last_turns
from turngate.trainer.credit.rule import rule
from turngate.trainer.credit.settings import Eps
from turngate.trainer.credit.tree import Tree, grow
from turngate.types import FloatArray, TurnTable

Scale: TypeAlias = Annotated[
    Literal["none", "bernoulli", "sample"],
    Field(
        description="What differences between branches are divided by. none: nothing; bernoulli: √(mean (1 − mean)), "
        "for rewards in [0, 1]; sample: their standard deviation."
    ),
]
Prune: TypeAlias = Annotated[
    float,
    Field(
        ge=0, description="Branches whose payments vary no more than this (a variance) get no credit; 0.1 in the paper."
    ),
]


@rule
def tree_rpo(
    table: TurnTable,
    *,
    scale: Scale = "none",
    prune: Prune = 0.0,
    eps: Eps = 1e-6,
) -> FloatArray:
    """TreeRPO: for branched rollouts: the mean payment after a turn, compared with the turns that follow the same one.

    ``A = (V − mean) / σ`` over the nodes that follow the same node, or begin the cohort: float32[N].

    ``V`` of a node is the mean of its children's; a trajectory that ends there is a child worth everything paid to it.
    σ is 1, ``sqrt(mean (1 − mean)) + eps`` ("bernoulli", for rewards in [0, 1]) or ``std + eps`` ("sample", ddof 1).
    Sibling sets whose population variance is at most ``prune`` give 0.

    Source: https://arxiv.org/abs/2506.05183, which prunes at 0.1; "bernoulli" is its normaliser as reconstructed, not
    confirmed. "none" here, because small sets under a sample std get a fixed size however close they are.

    Branches: under "none", turns of which every state has c continuations keep (c − 1)/c of their policy gradient,
    exactly; turns of only children learn nothing, which is the last ones where ``train.group_size`` fills no level for
    them. The other scales bend it (see ``docs/branching.md``).

    Degenerate: an only child gives 0. Without branches only the first turns have siblings: they get ``grpo``'s number
    (under "sample", ``grpo(std=False)``'s under "none"), later turns 0; with one turn each it is ``grpo``. Raises
    ShapeError (see ``validate`` and ``tree.branches``; values outside [0, 1] under "bernoulli"), ConfigError for a
    negative setting or an unknown scale.
    """
    non_negative("tree_rpo", prune=prune, eps=eps)
    one_of("tree_rpo", "scale", scale, ("none", "bernoulli", "sample"))
    validate(table)
    tree = grow(table, "tree_rpo")
    without_M = turnless(table)  # an episode that ended at the root is a child of the root
    value_M = np.append(mean_of_children(table, tree), table.total_B[without_M])
    siblings = group(value_M, np.append(tree.family_G, tree.n_nodes + table.cohort_B[without_M]))
    advantage_G = siblings.centred_M
    if scale == "sample":
        advantage_G = siblings.z_M(eps=eps)
    elif scale == "bernoulli":
        advantage_G = advantage_G / (_bernoulli(table, siblings) + eps)[siblings.group_M]
    variance_F = np.bincount(siblings.group_M, weights=siblings.centred_M**2) / np.maximum(siblings.count_G, 1)
    kept_F = variance_F > prune
    return as_credit(np.where(kept_F[siblings.group_M], advantage_G, 0.0)[tree.node_N])


def mean_of_children(table: TurnTable, tree: Tree) -> Float64Array:
    """The value of each node: float64[G].

    The mean of means down to the leaves is the mean over the leaves, each weighted by the chance that a walk which
    picks a child at random reaches it. Weights are kept as logarithms, relative to the largest through the node.
    """
    n_children_G = np.bincount(tree.above_G + 1, minlength=tree.n_nodes + 1)[1:].astype(np.float64)
    n_children_G += np.bincount(tree.node_N[last_turns(table)], minlength=tree.n_nodes)
    chance_N = -per_trajectory(np.log(n_children_G)[tree.node_N], table)[table.traj_N]
    best_G = np.full(tree.n_nodes, -np.inf)
    np.maximum.at(best_G, tree.node_N, chance_N)
    weight_N = np.exp(chance_N - best_G[tree.node_N])
    total_G = np.bincount(tree.node_N, weights=weight_N * table.total_B[table.traj_N], minlength=tree.n_nodes)
    value_G: Float64Array = total_G / np.bincount(tree.node_N, weights=weight_N, minlength=tree.n_nodes)
    return value_G


def _bernoulli(table: TurnTable, siblings: GroupStatistics) -> Float64Array:
    outside = np.flatnonzero((table.total_B < 0) | (table.total_B > 1))
    if len(outside):
        paid = table.total_B[outside[0]]
        raise ShapeError(f"tree_rpo: trajectory {outside[0]} is paid {paid}; scale 'bernoulli' needs totals in [0, 1]")
    sigma_G: Float64Array = np.sqrt(np.clip(siblings.mean_G * (1.0 - siblings.mean_G), 0.0, None))
    sigma_G[siblings.degenerate_G] = 1.0
    return sigma_G
