"""Which turns are one node, and every tree method against recursion in plain Python.

The oracle writes down each trajectory as a path of labels, where a copied turn carries the label of its parent's turn,
and looks everything up in those paths.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean, pstdev, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.cohorts import validate
from turngate.trainer.credit.portool import portool
from turngate.trainer.credit.tempo import tempo as tempo_rule
from turngate.trainer.credit.tree import grow
from turngate.trainer.credit.tree_grpo import tree_grpo
from turngate.trainer.credit.tree_rl import tree_rl
from turngate.trainer.credit.tree_rpo import tree_rpo

tempo = partial(tempo_rule, merge="recorded")
TIGHT = {"rtol": 1e-5, "atol": 1e-5}
Label = tuple[int, int, int]  # cohort, trajectory that played the turn, turn


@dataclass
class Branch:
    cohort: int
    rewards: list[float]
    parent: int
    branch: int


@st.composite
def forests(draw: Any) -> list[Branch]:
    """Up to eight trajectories; each may branch off an earlier one, also off one of another cohort."""
    forest: list[Branch] = []
    for i in range(draw(st.integers(1, 8))):
        rewards = draw(st.lists(st.integers(0, 4).map(lambda k: k / 16), min_size=1, max_size=4))
        parent = draw(st.integers(-1, i - 1))
        most = 0 if parent < 0 else min(len(rewards), len(forest[parent].rewards))
        cohort = draw(st.integers(0, 1)) if parent < 0 or draw(st.integers(0, 3)) == 0 else forest[parent].cohort
        forest.append(Branch(cohort, rewards, parent, draw(st.integers(0, most))))
    return forest


def tabled(table_of: Callable[..., Any], forest: list[Branch]) -> Any:
    return table_of(
        [one.rewards for one in forest],
        cohorts=[one.cohort for one in forest],
        parent_B=[one.parent for one in forest],
        branch_B=[one.branch for one in forest],
    )


class Slow:
    """Everything that the oracles ask about a forest."""

    def __init__(self, forest: list[Branch]) -> None:
        self.forest = forest
        self.paths = [
            [(one.cohort, *self.owner(i, t)) for t in range(len(one.rewards))] for i, one in enumerate(forest)
        ]
        self.total = [sum(one.rewards) for one in forest]
        self.through: dict[Label, list[int]] = {}
        self.children: dict[Any, dict[Label, None]] = {}
        for i, path in enumerate(self.paths):
            for t, label in enumerate(path):
                self.through.setdefault(label, []).append(i)
                self.children.setdefault(self.before(i, t), {})[label] = None

    def owner(self, i: int, t: int) -> tuple[int, int]:
        one = self.forest[i]
        return self.owner(one.parent, t) if t < one.branch else (i, t)

    def origin(self, i: int) -> int:
        return i if self.forest[i].parent < 0 else self.origin(self.forest[i].parent)

    def cohort(self, i: int) -> list[int]:
        return [k for k, one in enumerate(self.forest) if one.cohort == self.forest[i].cohort]

    def before(self, i: int, t: int) -> Any:
        return self.paths[i][t - 1] if t else ("root", self.forest[i].cohort)

    def ends(self, label: Label) -> list[int]:
        return [i for i, path in enumerate(self.paths) if path[-1] == label]

    def branched(self, i: int) -> bool:
        labels = [label for k in self.cohort(i) for label in self.paths[k]]
        return len(set(labels)) < len(labels)

    def deep(self, label: Label) -> float:
        return fmean(
            [self.deep(child) for child in self.children.get(label, ())] + [self.total[i] for i in self.ends(label)]
        )

    def mean(self, members: list[int]) -> float:
        return fmean(self.total[i] for i in members)

    def rise(self, i: int, t: int) -> float:
        if not self.branched(i):
            return 0.0
        above = self.mean(self.through[self.paths[i][t - 1]]) if t else self.mean(self.cohort(i))
        return self.mean(self.through[self.paths[i][t]]) - above

    def per_turn(self, rule: Callable[[int, int], float]) -> list[float]:
        return [rule(i, t) for i, one in enumerate(self.forest) for t in range(len(one.rewards))]


def flat(values: list[float]) -> bool:
    return len(values) < 2 or max(values) - min(values) < 1e-9


def z(value: float, values: list[float]) -> float:
    return 0.0 if flat(values) else (value - fmean(values)) / (stdev(values) + 1e-6)


def z_of_trajectory(slow: Slow, i: int) -> float:
    return z(slow.total[i], [slow.total[k] for k in slow.cohort(i)])


def nodes(table: Any) -> Any:
    validate(table)
    return grow(table, "nodes").node_N


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_shared_turns_are_one_node(table_of: Any):
    """1 leaves 0 after two turns, 2 leaves 1 after one (so it shares that one with 0), 3 leaves 1 after three."""
    table = table_of([[0] * 3, [0] * 4, [0] * 2, [0] * 4], parent_B=[-1, 0, 1, 1], branch_B=[0, 2, 1, 3])
    assert nodes(table).tolist() == [0, 1, 2, 0, 1, 3, 4, 0, 5, 0, 1, 3, 6]
    tree = grow(table, "test")
    assert tree.above_G.tolist() == [-1, 0, 1, 1, 3, 0, 3]
    assert tree.visits_G.tolist() == [4, 3, 1, 2, 1, 1, 1]
    assert tree.origin_B.tolist() == [0, 0, 0, 0]
    assert tree.forked_G.all()


def test_a_parent_may_come_later_in_the_batch(table_of: Any):
    table = table_of([[0] * 3, [0] * 3, [0] * 2], parent_B=[1, 2, -1], branch_B=[1, 2, 0])
    found = nodes(table)
    assert found[0] == found[3] == found[6]
    assert found[4] == found[7]
    assert len(set(found.tolist())) == 5


def test_a_branch_before_the_first_turn_shares_nothing_but_the_tree(table_of: Any):
    tree = grow(table_of([[0], [0], [0]], parent_B=[-1, 0, -1], branch_B=[0, 0, 0]), "test")
    assert tree.node_N.tolist() == [0, 1, 2]
    assert tree.origin_B.tolist() == [0, 0, 2]
    assert not tree.forked_G.any()


def test_cohorts_share_no_node(table_of: Any):
    """Two guided retries of an unguided trajectory: their common turns are one node, which is not the parent's."""
    table = table_of([[0] * 2] * 3, cohorts=[0, 1, 1], parent_B=[-1, 0, 0], branch_B=[0, 1, 1])
    found = nodes(table)
    assert found[2] == found[4] != found[0]
    assert len(set(found.tolist())) == 5


@given(forests())
@settings(max_examples=30)
def test_nodes_are_the_labels_of_plain_recursion(table_of: Any, forest: list[Branch]):
    slow, found = Slow(forest), nodes(tabled(table_of, forest))
    labels = [label for path in slow.paths for label in path]
    assert len(set(zip(labels, found.tolist(), strict=True))) == len(set(labels)) == len(set(found.tolist()))
    assert sorted(set(found.tolist())) == list(range(len(set(labels))))
    tree = grow(tabled(table_of, forest), "test")
    for row, label in enumerate(labels):
        assert tree.visits_G[found[row]] == len(slow.through[label])
        assert tree.cohort_G[found[row]] == label[0]
    assert tree.origin_B.tolist() == [slow.origin(i) for i in range(len(forest))]
    expected = slow.per_turn(lambda i, t: float(found[row_of(forest, i) + t - 1]) if t else -1.0)
    assert tree.above_G[found].tolist() == expected


def row_of(forest: list[Branch], i: int) -> int:
    return sum(len(one.rewards) for one in forest[:i])


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"parent_B": [-1, 0, 0]}, "nodes needs column 'branch_B'"),
        ({"branch_B": [0, 0, 0]}, "nodes needs column 'parent_B'"),
        ({"parent_B": [-1, 3, 0], "branch_B": [0, 0, 0]}, r"parent_B is 3 for trajectory 1; it must be −1\.\.2"),
        ({"parent_B": [-1, -2, 0], "branch_B": [0, 0, 0]}, "parent_B is -2 for trajectory 1"),
        ({"parent_B": [-1, 1, 0], "branch_B": [0, 0, 0]}, "parent_B is 1 for trajectory 1; it descends from itself"),
        ({"parent_B": [1, 2, 0], "branch_B": [1, 1, 1]}, "descends from itself"),
        ({"parent_B": [1, 0, 0], "branch_B": [1, 1, 1]}, "descends from itself"),
        ({"parent_B": [-1, 0, -1], "branch_B": [0, 3, 0]}, "branch_B is 3 for trajectory 1"),
        ({"parent_B": [-1, -1, 0], "branch_B": [0, 0, 2]}, "branch_B is 2 for trajectory 2"),
        ({"parent_B": [-1, 0, -1], "branch_B": [0, -1, 0]}, "branch_B is -1 for trajectory 1"),
        ({"parent_B": [-1, -1, -1], "branch_B": [0, 0, 1]}, "branch_B is 1 for trajectory 2"),
        ({"parent_B": [-1.0, 0.0, 0.0], "branch_B": [0, 0, 0]}, "parent_B has dtype float64"),
        ({"parent_B": [-1, 0, 0], "branch_B": [0.0, 0.5, 0.0]}, "branch_B has dtype float64"),
        ({"parent_B": [-1, 0], "branch_B": [0, 0, 0]}, r"parent_B has shape \(2,\), expected \(3,\)"),
    ],
)
def test_branches_that_cannot_be_are_refused(table_of: Any, columns: dict[str, Any], match: str):
    table = table_of([[0, 0], [0, 0], [0]], **columns)
    with pytest.raises(ShapeError, match=match):
        nodes(table)


def test_a_long_chain_of_branches_is_followed_to_its_start(table_of: Any):
    """Each of 300 trajectories shares one turn with the one before it."""
    n = 300
    table = table_of([[0, 0]] * n, parent_B=list(range(-1, n - 1)), branch_B=[0] + [1] * (n - 1))
    tree = grow(table, "test")
    assert set(tree.node_N[::2].tolist()) == {0}
    assert tree.visits_G[0] == n
    assert (tree.origin_B == 0).all()


# --- methods ---------------------------------------------------------------------------------------------------------


def tempo_slowly(slow: Slow, i: int, t: int, scaled: bool) -> float:
    totals = [slow.total[k] for k in slow.cohort(i)]
    scale = stdev(totals) + 1e-6 if scaled and not flat(totals) else 1.0
    return z_of_trajectory(slow, i) + (0.0 if flat(totals) else slow.rise(i, t) / scale)


def tree_rl_slowly(slow: Slow, i: int, t: int) -> float:
    members = slow.through[slow.paths[i][t]]
    return (slow.mean(members) - slow.mean(slow.cohort(i)) + slow.rise(i, t)) / len(members) ** 0.5


def tree_grpo_slowly(slow: Slow, i: int) -> float:
    tree = [k for k in slow.cohort(i) if slow.origin(k) == slow.origin(i)]
    return z_of_trajectory(slow, i) + z(slow.total[i], [slow.total[k] for k in tree])


def arpo_slowly(slow: Slow, i: int, t: int) -> float:
    return fmean(z_of_trajectory(slow, k) for k in slow.through[slow.paths[i][t]])


@given(forests())
@settings(max_examples=30)
def test_trajectory_methods_against_recursion(table_of: Any, forest: list[Branch]):
    slow, table = Slow(forest), tabled(table_of, forest)
    for scaled in (True, False):
        expected = slow.per_turn(partial(tempo_slowly, slow, scaled=scaled))
        np.testing.assert_allclose(tempo(table, scale_td=scaled), expected, **TIGHT)
    np.testing.assert_allclose(tree_rl(table), slow.per_turn(partial(tree_rl_slowly, slow)), **TIGHT)
    np.testing.assert_allclose(tree_grpo(table), slow.per_turn(lambda i, t: tree_grpo_slowly(slow, i)), **TIGHT)
    np.testing.assert_allclose(arpo(table, mode="hard"), slow.per_turn(partial(arpo_slowly, slow)), **TIGHT)


def portool_slowly(slow: Slow, i: int, t: int, std: bool) -> float:
    def step(label: Label) -> float:
        depth = next(path.index(label) for path in slow.paths if label in path)
        return fmean(0.5 ** (len(slow.paths[k]) - 1 - depth) * slow.total[k] for k in slow.through[label])

    siblings, own = [step(label) for label in slow.children[slow.before(i, t)]], step(slow.paths[i][t])
    fork = z(own, siblings) if std else own - fmean(siblings)
    counts = slow.branched(i) and not flat([slow.total[k] for k in slow.cohort(i)])
    return 2.0 * z_of_trajectory(slow, i) + (3.0 * fork if counts else 0.0)


def tree_rpo_slowly(slow: Slow, i: int, t: int, scale: str, prune: float) -> float:
    siblings = [slow.deep(label) for label in slow.children[slow.before(i, t)]]
    if flat(siblings) or pstdev(siblings) ** 2 <= prune:
        return 0.0
    mean = fmean(siblings)
    sigma = {"none": 1.0, "bernoulli": (mean * (1 - mean)) ** 0.5 + 1e-6, "sample": stdev(siblings) + 1e-6}[scale]
    return (slow.deep(slow.paths[i][t]) - mean) / sigma


@given(forests())
@settings(max_examples=30)
def test_sibling_methods_against_recursion(table_of: Any, forest: list[Branch]):
    slow, table = Slow(forest), tabled(table_of, forest)
    for std in (False, True):
        found = portool(table, gamma=0.5, omega_trajectory=2.0, omega_fork=3.0, fork_std=std)
        np.testing.assert_allclose(found, slow.per_turn(partial(portool_slowly, slow, std=std)), rtol=1e-4, atol=1e-4)
    for scale in ("none", "bernoulli", "sample"):
        for prune in (0.0, 0.02):
            found = tree_rpo(table, scale=scale, prune=prune)
            expected = slow.per_turn(partial(tree_rpo_slowly, slow, scale=scale, prune=prune))
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_mean_of_means_survives_a_tree_of_any_depth(table_of: Any):
    """Each trajectory forks once more than the one before: a walk reaches the last with chance 2^−1100, which is 0."""
    n = 1100
    rewards = [[0.0] * (i + 1) + [1.0 if i == n - 1 else 0.0] for i in range(n)]
    table = table_of(rewards, parent_B=list(range(-1, n - 1)), branch_B=[0, *range(1, n)])
    advantage_N = tree_rpo(table)
    assert advantage_N[-2:].tolist() == [0.5, 0.0]
