"""Siblings as trees: a turn that several trajectories share is one node.

Which turns are shared is either recorded, or found by comparing:

* "recorded": a trajectory that branched off another one carries copies of the turns before the branch.
  ``measured["parent_B"]`` says off which trajectory (−1 = none) and ``measured["branch_B"]`` how many turns they share;
* "action_observation": siblings that saw and did the same so far, by ``measured["act_N"]``;
* "tokens": siblings whose token ids are the same so far, by ``measured["said_N"]``; branches are among them.

All columns come from ``tabulate``. Every cohort is one tree: its root is the task, the children of the root are the
first turns, the leaves are the ends. A trajectory without turns is no leaf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError
from turngate.trainer.credit.cohorts import Float64Array, Int64Array, first_turns, lengths, measured_column
from turngate.types import BoolArray, TurnTable

Merge: TypeAlias = Literal["recorded", "action_observation", "tokens"]
MERGES: tuple[Merge, ...] = get_args(Merge)
LABELS: Mapping[Merge, str] = {"action_observation": "act_N", "tokens": "said_N"}
"""The column that is compared; "recorded" has none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tree:
    """The trees of a batch as columns over their G nodes, numbered in the order of the turns that own them.

    * ``node_N`` int64[N]: the node of each turn;
    * ``above_G`` int64[G]: the node before it, −1 under the root;
    * ``visits_G`` int64[G]: trajectories through it;
    * ``cohort_G`` int64[G]: the cohort whose tree it belongs to;
    * ``origin_B`` int64[B]: the trajectory at which the chain of parents of each trajectory begins; where sharing was
      found, the first one that began like it.
    """

    node_N: Int64Array
    above_G: Int64Array
    visits_G: Int64Array
    cohort_G: Int64Array
    origin_B: Int64Array

    @property
    def n_nodes(self) -> int:
        """G, the number of nodes."""
        return len(self.above_G)

    @property
    def family_G(self) -> Int64Array:
        """Nodes with the same predecessor have the same number; the numbers have gaps: int64[G]."""
        return np.where(self.above_G < 0, self.n_nodes + self.cohort_G, self.above_G)

    @property
    def forked_G(self) -> BoolArray:
        """Whether the cohort of the node has a turn that is shared; without one it has no tree: bool[G]."""
        shared = np.bincount(self.cohort_G, weights=self.visits_G > 1) > 0
        forked_G: BoolArray = shared[self.cohort_G]
        return forked_G

    def mean_G(self, values_N: Float64Array) -> Float64Array:
        """The mean over the trajectories through each node, of a number per turn: float64[G]."""
        mean_G: Float64Array = np.bincount(self.node_N, weights=values_N, minlength=self.n_nodes) / self.visits_G
        return mean_G

    def rise_G(self, value_G: Float64Array) -> Float64Array:
        """``V(node) − V(node above)``, for values centred so that every root has 0: float64[G].

        A cohort that shares no turn is no tree: there it is 0, also under the root.
        """
        before_G = np.where(self.above_G < 0, 0.0, value_G[self.above_G])
        return np.where(self.forked_G, value_G - before_G, 0.0)


def grow(table: TurnTable, method: str, merge: Merge = "recorded") -> Tree:
    """The trees of a validated table.

    Cohorts never share a node, so a branch into another cohort (a guided retry) starts a tree of its own there. Raises
    ShapeError as ``branches`` does, or for a column of ``LABELS`` that is missing or holds no whole numbers.
    """
    if merge == "recorded":
        parent_B, branch_B = branches(table, method)
        owner_N, origin_B = _owners(table, parent_B, branch_B), _origins(parent_B)
    else:
        owner_N = _first_alike(table, _whole(table, LABELS[merge], method))
        first_N = np.flatnonzero(table.index_N == 0)
        origin_B = np.arange(table.n_trajectories)
        origin_B[table.traj_N[first_N]] = table.traj_N[owner_N[first_N]]
    n_cohorts = int(table.cohort_B.max()) + 1
    cohort_N = table.cohort_B[table.traj_N]
    keys_G, node_N = np.unique(owner_N * n_cohorts + cohort_N, return_inverse=True)
    node_N = node_N.astype(np.int64, copy=False)
    above_G = np.full(len(keys_G), -1, np.int64)
    later = np.flatnonzero(table.index_N > 0)
    above_G[node_N[later]] = node_N[later - 1]
    return Tree(
        node_N=node_N,
        above_G=above_G,
        visits_G=np.bincount(node_N).astype(np.int64, copy=False),
        cohort_G=(keys_G % n_cohorts).astype(np.int64, copy=False),
        origin_B=origin_B,
    )


def branches(table: TurnTable, method: str) -> tuple[Int64Array, Int64Array]:
    """``parent_B`` and ``branch_B``, checked: two int64[B].

    Raises ShapeError if they were not measured, for values that are no whole numbers, a parent outside the batch, a
    trajectory that descends from itself, and a branch beyond the turns of either trajectory.
    """
    parent_B, branch_B = _whole(table, "parent_B", method), _whole(table, "branch_B", method)
    n_trajectories = table.n_trajectories
    _refuse(
        "parent_B", parent_B, (parent_B < -1) | (parent_B >= n_trajectories), f"it must be −1..{n_trajectories - 1}"
    )
    origin_B = _origins(parent_B)
    _refuse("parent_B", parent_B, parent_B[origin_B] >= 0, "it descends from itself")
    length_B = lengths(table)
    most_B = np.where(parent_B < 0, 0, np.minimum(length_B, length_B[parent_B]))
    _refuse("branch_B", branch_B, (branch_B < 0) | (branch_B > most_B), "it must be 0 … the turns that both have")
    return parent_B, branch_B


def _whole(table: TurnTable, name: str, method: str) -> Int64Array:
    values_B = measured_column(table, name, method)
    if not np.issubdtype(values_B.dtype, np.integer):
        raise ShapeError(f"{method}: {name} has dtype {values_B.dtype}; it must hold whole numbers")
    return values_B.astype(np.int64)


def _refuse(name: str, values_B: Int64Array, bad_B: BoolArray, rule: str) -> None:
    bad = np.flatnonzero(bad_B)
    if len(bad):
        raise ShapeError(f"{name} is {values_B[bad[0]]} for trajectory {bad[0]}; {rule}")


def _origins(parent_B: Int64Array) -> Int64Array:
    """Follow the parents, twice as far in each pass; in a circle one ends at a trajectory that has a parent."""
    origin_B = np.where(parent_B < 0, np.arange(len(parent_B)), parent_B)
    for _ in range(len(parent_B).bit_length()):
        origin_B = origin_B[origin_B]
    return origin_B


def _first_alike(table: TurnTable, label_N: Int64Array) -> Int64Array:
    """The row of this turn in the first sibling with the same labels up to it; labels below 0 equal no other."""
    _, label_N = np.unique(np.where(label_N < 0, -1 - np.arange(len(label_N)), label_N), return_inverse=True)
    owner_N = np.empty(len(label_N), np.int64)
    by_depth = np.argsort(table.index_N, kind="stable")
    before_M = table.cohort_B[table.traj_N[by_depth]].astype(np.int64)
    depth_M = table.index_N[by_depth]
    for start, stop in zip(*_runs(depth_M), strict=True):
        rows = by_depth[start:stop]
        before_R = before_M[start:stop] if depth_M[start] == 0 else owner_N[rows - 1]
        _, first_G, node_R = np.unique(before_R * len(label_N) + label_N[rows], return_index=True, return_inverse=True)
        owner_N[rows] = rows[first_G][node_R]
    return owner_N


def _runs(number_M: npt.NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
    """Where each run of equal numbers starts and stops."""
    start_R = np.flatnonzero(np.diff(number_M, prepend=-1)).astype(np.int64)
    return start_R, np.append(start_R[1:], len(number_M))


def _owners(table: TurnTable, parent_B: Int64Array, branch_B: Int64Array) -> npt.NDArray[np.int64]:
    """The row at which each turn was played first."""
    shared = np.flatnonzero(table.index_N < branch_B[table.traj_N])
    owner_N = np.arange(table.n_turns)
    owner_N[shared] = first_turns(table)[parent_B[table.traj_N[shared]]] + table.index_N[shared]
    while not np.array_equal(further_N := owner_N[owner_N], owner_N):
        owner_N = further_N
    return owner_N
