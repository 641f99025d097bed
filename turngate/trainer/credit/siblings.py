"""The siblings that a turn's trajectory is compared with: those that do not share the turn.

A baseline must not depend on the action that it is subtracted for. Siblings that branched off after a turn share it, so
what they were paid depends on it: with them in its baseline, a turn that k of n siblings share would lose the share
``(k − 1)/(n − 1)`` of its gradient under ``rloo``, and all of it in a tree of one root. So each turn of a branched
cohort has a comparison of its own: its trajectory, and the siblings outside of the subtree that begins with the turn.

The m siblings outside stand in for all n − 1: each weighs ``(n − 1)/m``. So the weights sum to n at every turn, and
rules that keep a share of the gradient, such as (n − 1)/n under ``dr_grpo``, keep the same one of all turns. A turn
without siblings outside has no comparison, like a cohort of one.

A cohort without branches is one comparison of all its members, each with weight 1.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turngate.trainer.credit.cohorts import (
    Float64Array,
    GroupStatistics,
    Int64Array,
    first_turns,
    group,
    lengths,
)
from turngate.trainer.credit.tree import Tree, grow
from turngate.types import BoolArray, FloatArray, TurnTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Siblings:
    """M members of numbered comparisons.

    * ``member_M`` int64[M]: the compared trajectories or turns;
    * ``group_M`` int64[M]: the comparison that it takes part in; numbers may have gaps;
    * ``own_N`` int64[N]: for each turn (or each of some turns), the member that stands for itself in its comparison;
    * ``weight_M`` float64[M]: how often a member counts; None = once each, as without branches.
    """

    member_M: Int64Array
    group_M: npt.NDArray[np.integer]
    own_N: Int64Array
    weight_M: Float64Array | None = None

    def group(self, values: FloatArray | Float64Array, *, weight: Float64Array | None = None) -> GroupStatistics:
        """Statistics of the members' ``values``, one per trajectory (or turn); ``weight`` is multiplied by theirs."""
        weight_M = self.weight_M
        if weight is not None:
            weight_M = weight[self.member_M] * (1.0 if weight_M is None else weight_M)
        return group(values[self.member_M].astype(np.float64, copy=False), self.group_M, weight_M=weight_M)

    def to_turns(self, values_M: Float64Array) -> FloatArray:
        """The number of each turn's own member: float32[N]."""
        return values_M.astype(np.float32)[self.own_N]

    @property
    def alone_N(self) -> BoolArray:
        """The turns without a comparison: bool[N]."""
        return self.outside_N < 1

    @property
    def outside_N(self) -> Int64Array:
        """With how many others each turn is compared: int64[N]."""
        outside_N: Int64Array = np.bincount(self.group_M)[self.group_M[self.own_N]] - 1
        return outside_N


def siblings(table: TurnTable) -> Siblings:
    """The comparisons of trajectories, for each turn of a validated table.

    Branches are those of ``measured["parent_B"]`` and ``branch_B``; without these columns there are none. Turns that
    hold no token of the policy need no baseline, so the prefix turns that retries have in common are left out. Raises
    ShapeError as ``tree.branches`` does.
    """
    tree, branched_G = _branched(table)
    all_B = np.arange(table.n_trajectories)
    if tree is None:
        return Siblings(member_M=all_B, group_M=table.cohort_B, own_N=table.traj_N.astype(np.int64))
    apart_B = branched_G[table.cohort_B]
    plain_M = all_B[~apart_B]
    # the turns of a trajectory that are shared by equally many have the same siblings outside
    asks = np.flatnonzero(apart_B[table.traj_N])
    share_N = tree.visits_G[tree.node_N]
    key_A = table.traj_N[asks].astype(np.int64) * (int(share_N.max()) + 1) + share_N[asks]
    _, first_Q, which_A = np.unique(key_A, return_index=True, return_inverse=True)
    rows_Q = asks[first_Q]
    cohort_Q = table.cohort_B[table.traj_N[rows_Q]]
    member_P, asker_P, weight_P = _outside(table, tree, rows_Q, cohort_Q, all_B, table.cohort_B)
    mine = np.flatnonzero(member_P == table.traj_N[rows_Q][asker_P])  # in the order of the askers
    own_N = np.zeros(table.n_turns, np.int64)
    own_N[asks] = len(plain_M) + mine[which_A]
    place_B = np.cumsum(~apart_B) - 1
    others = np.flatnonzero(~apart_B[table.traj_N])
    own_N[others] = place_B[table.traj_N[others]]
    return Siblings(
        member_M=np.concatenate([plain_M, member_P]),
        group_M=np.concatenate([table.cohort_B[plain_M], int(table.cohort_B.max()) + 1 + asker_P]),
        own_N=own_N,
        weight_M=np.concatenate([np.ones(len(plain_M)), weight_P]),
    )


def sibling_turns(table: TurnTable, row_M: Int64Array, group_M: Int64Array) -> Siblings:
    """The comparisons of turns ``row_M`` of a validated table with those of the same ``group_M``, int64[M] each.

    Members are places in ``row_M``. Turns of the own trajectory stay in the comparison, as they do without branches.
    """
    tree, _ = _branched(table)
    all_M = np.arange(len(row_M))
    if tree is None:
        return Siblings(member_M=all_M, group_M=group_M, own_N=all_M)
    member_P, asker_P, weight_P = _outside(table, tree, row_M, group_M, table.traj_N[row_M], group_M)
    mine = np.flatnonzero(member_P == asker_P)
    return Siblings(member_M=member_P, group_M=asker_P, own_N=mine, weight_M=weight_P)


def _branched(table: TurnTable) -> tuple[Tree | None, BoolArray]:
    """The trees, or None if no turn is shared; and which cohorts share one: bool[G]."""
    if table.measured.get("parent_B") is None or table.measured.get("branch_B") is None:
        return None, np.zeros(0, np.bool_)
    tree = grow(table, "siblings")
    shared_N = tree.visits_G[tree.node_N] > 1
    tokens_N = table.measured.get("tokens_N")
    if tokens_N is not None:
        shared_N &= tokens_N > 0
    n_cohorts = int(table.cohort_B.max()) + 1
    branched_G = np.bincount(table.cohort_B[table.traj_N], weights=shared_N, minlength=n_cohorts) > 0
    return (tree if shared_N.any() else None), branched_G


def _outside(
    table: TurnTable,
    tree: Tree,
    rows_Q: Int64Array,
    group_Q: npt.NDArray[np.integer],
    traj_C: npt.NDArray[np.integer],
    group_C: npt.NDArray[np.integer],
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """For each asking turn, the candidates of its group that do not share it, and those of its own trajectory.

    Three columns over the pairs, by asker: the place of the candidate, that of the asker, and the weight.
    """
    n_groups = int(max(group_Q.max(initial=0), group_C.max(initial=0))) + 1
    order_C = np.argsort(group_C, kind="stable").astype(np.int64)
    size_G = np.bincount(group_C, minlength=n_groups)
    n_Q = size_G[group_Q]
    asker_P = np.repeat(np.arange(len(rows_Q)), n_Q)
    place_P = np.arange(len(asker_P)) - np.repeat(np.cumsum(n_Q) - n_Q, n_Q)
    candidate_P = order_C[(np.cumsum(size_G) - size_G)[group_Q][asker_P] + place_P]
    row_P, traj_P = rows_Q[asker_P], traj_C[candidate_P]
    turn_P = table.index_N[row_P]
    length_P = lengths(table)[traj_P]
    same_P = first_turns(table)[traj_P] + np.minimum(turn_P, np.maximum(length_P - 1, 0))
    same_P = np.minimum(same_P, table.n_turns - 1)  # of a trajectory without turns at the end
    shares_P = (turn_P < length_P) & (tree.node_N[same_P] == tree.node_N[row_P])
    own_P = traj_P == table.traj_N[row_P]
    own_Q = np.bincount(asker_P, weights=own_P, minlength=len(rows_Q))
    outside_Q = np.bincount(asker_P, weights=~shares_P & ~own_P, minlength=len(rows_Q))
    weight_Q = (n_Q - own_Q) / np.maximum(outside_Q, 1)
    kept_P = own_P | ~shares_P
    weight_P = np.where(own_P, 1.0, weight_Q[asker_P])
    return candidate_P[kept_P], asker_P[kept_P], weight_P[kept_P]
