"""The worked numbers of the tree methods, and what their settings do."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.portool import portool
from turngate.trainer.credit.tempo import tempo as tempo_rule
from turngate.trainer.credit.tree_grpo import tree_grpo
from turngate.trainer.credit.tree_rl import tree_rl
from turngate.trainer.credit.tree_rpo import tree_rpo

tempo = partial(tempo_rule, merge="recorded")
HALF = 0.707107


@pytest.fixture
def forked(table_of: Any) -> Any:
    """Child a, then leaves 1 and 0; child b, a leaf of 0."""
    return table_of([[0, 1], [0, 0], [0]], parent_B=[-1, 0, 0], branch_B=[0, 1, 0])


@pytest.fixture
def two_by_two(table_of: Any) -> Any:
    """Two children with two leaves each: (1, 0) and (0, 0)."""
    return table_of([[0, 1], [0, 0], [0, 0], [0, 0]], parent_B=[-1, 0, -1, 2], branch_B=[0, 1, 0, 1])


# --- PORTool ---------------------------------------------------------------------------------------------------------


def test_portool_worked_example(forked: Any):
    """R(a) = 0.475, R(b) = 0; a's leaves 1 and 0."""
    fork_N = portool(forked, omega_trajectory=0.0)
    np.testing.assert_allclose(fork_N, [0.2375, 0.5, 0.2375, -0.5, -0.2375], atol=1e-5)
    z_N = portool(forked, omega_trajectory=0.0, fork_std=True, eps=0.0)
    np.testing.assert_allclose(z_N, [HALF, HALF, HALF, -HALF, -HALF], atol=1e-5)


def test_portool_adds_the_trajectory_part(forked: Any):
    z_N = np.array([2, 2, -1, -1, -1]) / np.sqrt(3)
    advantage_N = portool(forked, omega_trajectory=0.5, omega_fork=0.0, eps=0.0)
    np.testing.assert_allclose(advantage_N, 0.5 * z_N, atol=1e-5)


def test_portool_fork_of_three_against_one(table_of: Any):
    """A parent with children of outcomes (1, 1, 0) and (0): 0.666667 against 0."""
    rewards = [[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0]]
    table = table_of(rewards, parent_B=[-1, 0, 0, 0], branch_B=[0, 2, 2, 1])
    fork_N = portool(table, gamma=1.0, omega_trajectory=0.0)
    np.testing.assert_allclose(fork_N[[1, 10]], [1 / 3, -1 / 3], atol=1e-6)


def test_portool_format_counts_for_the_step(table_of: Any):
    table = table_of([[0, 1], [0, 0]], parent_B=[-1, 0], branch_B=[0, 1], format_N=[1, 0, 1, 1])
    fork_N = portool(table, omega_trajectory=0.0, format_weight=0.1)
    np.testing.assert_allclose(fork_N, [0, 0.45, 0, -0.45], atol=1e-6)


def test_portool_needs_formats_only_if_they_count(forked: Any):
    with pytest.raises(ShapeError, match="format_N"):
        portool(forked, format_weight=0.1)


# --- TreeRPO ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def four_siblings(table_of: Any) -> Any:
    """Siblings of value 1, 0.5, 0.5, 0."""
    rewards = [[0, 1], [0, 1], [0, 0], [0, 1], [0, 0], [0, 0]]
    return table_of(rewards, parent_B=[-1, -1, 1, -1, 3, -1], branch_B=[0, 0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("bernoulli", [1, 0, 0, -1]), ("sample", [1.224745, 0, 0, -1.224745]), ("none", [0.5, 0, 0, -0.5])],
)
def test_tree_rpo_worked_siblings(four_siblings: Any, scale: Any, expected: list[float]):
    first_N = tree_rpo(four_siblings, scale=scale, eps=0.0)[[0, 2, 6, 10]]
    np.testing.assert_allclose(first_N, expected, atol=1e-5)


def test_tree_rpo_prunes_sets_of_small_variance(four_siblings: Any):
    """Their population variance is 0.125; a set that has exactly the limit is dropped."""
    assert tree_rpo(four_siblings, prune=0.1)[0] == pytest.approx(0.5)
    assert tree_rpo(four_siblings, prune=0.125)[[0, 2, 6, 10]].tolist() == [0, 0, 0, 0]


def test_tree_rpo_worked_levels(two_by_two: Any):
    """V = (0.5, 0): the first level and the first pair are ±0.707107, the second pair is dropped."""
    advantage_N = tree_rpo(two_by_two, scale="sample", eps=0.0)
    np.testing.assert_allclose(advantage_N, [HALF, HALF, HALF, -HALF, -HALF, 0, -HALF, 0], atol=1e-5)


def test_tree_rpo_averages_children_not_leaves(table_of: Any):
    """One child ends with 1, the other splits into three leaves of 0: the node is worth 0.5, not 0.25."""
    rewards = [[0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0]]
    table = table_of(rewards, parent_B=[-1, 0, 1, 1, -1], branch_B=[0, 1, 2, 2, 0])
    assert tree_rpo(table)[0] == pytest.approx(0.25)


def test_tree_rpo_counts_an_end_as_a_child(table_of: Any):
    """A node where one trajectory ends and another goes on, both worth 1, is still one child of its parent."""
    rewards = [[0, 1], [0, 1, 0], [0, 0], [0]]
    table = table_of(rewards, parent_B=[-1, 0, 0, -1], branch_B=[0, 2, 1, 0])
    assert tree_rpo(table)[0] == pytest.approx(0.25)


def test_tree_rpo_bernoulli_needs_totals_in_the_unit_interval(table_of: Any):
    table = table_of([[2], [0]], parent_B=[-1, -1], branch_B=[0, 0])
    with pytest.raises(ShapeError, match=r"trajectory 0 is paid 2\.0"):
        tree_rpo(table, scale="bernoulli")
    assert tree_rpo(table).tolist() == [1, -1]


@pytest.mark.parametrize("total", [0.0, 1.0])
def test_tree_rpo_bernoulli_without_spread_is_zero(table_of: Any, total: float):
    table = table_of([[total], [total]], parent_B=[-1, -1], branch_B=[0, 0])
    assert tree_rpo(table, scale="bernoulli", eps=0.0).tolist() == [0, 0]


# --- TreeRL ----------------------------------------------------------------------------------------------------------


def test_tree_rl_worked_example(two_by_two: Any):
    """Root 0.25, node 0.5 with two leaves, its leaves 1 and 0."""
    advantage_N = tree_rl(two_by_two)
    np.testing.assert_allclose(advantage_N[[0, 1, 2, 3]], [0.353553, 1.25, 0.353553, -0.75], atol=1e-5)


def test_tree_rl_four_leaves(table_of: Any):
    """Root and parent 0.5, a step worth 1 with four leaves: (0.5 + 0.5) / 2."""
    rewards = [[0, 0, 1]] * 4 + [[0, 0, 0]] * 4
    table = table_of(rewards, parent_B=[-1, 0, 0, 0, 0, 4, 4, 4], branch_B=[0, 2, 2, 2, 1, 2, 2, 2])
    assert tree_rl(table)[1] == pytest.approx(0.5, abs=1e-6)


# --- Tree-GRPO -------------------------------------------------------------------------------------------------------


def test_tree_grpo_worked_example(table_of: Any):
    table = table_of([[1], [0], [0], [0]], parent_B=[-1, 0, -1, 2], branch_B=[0] * 4)
    np.testing.assert_allclose(tree_grpo(table, eps=0.0), [2.207107, -1.207107, -0.5, -0.5], atol=1e-5)


def test_tree_grpo_of_single_leaf_trees_adds_nothing(table_of: Any):
    table = table_of([[1], [0], [0], [0]], parent_B=[-1] * 4, branch_B=[0] * 4)
    np.testing.assert_allclose(tree_grpo(table, eps=0.0), [1.5, -0.5, -0.5, -0.5], atol=1e-6)


# --- TEMPO -----------------------------------------------------------------------------------------------------------


def test_tempo_worked_example(table_of: Any):
    """Rollouts 0 and 1 share their first turn: V(root) = 0.25, V(shared) = 0.5, std 0.5."""
    rewards = [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    table = table_of(rewards, parent_B=[-1, 0, -1, -1], branch_B=[0, 1, 0, 0])
    advantage_N = tempo(table, eps=0.0)
    np.testing.assert_allclose(advantage_N[:3], [2.0, 2.5, 1.5], atol=1e-5)
    np.testing.assert_allclose(advantage_N[3:6], [0.0, -1.5, -0.5], atol=1e-5)


def test_tempo_with_an_undivided_difference(table_of: Any):
    """All share turn 0, then two branches with 1, 1 and 0, 0."""
    rewards = [[0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    table = table_of(rewards, parent_B=[-1, 0, 0, 2], branch_B=[0, 2, 1, 2])
    advantage_N = tempo(table, scale_td=False, eps=0.0)
    np.testing.assert_allclose(advantage_N[:3], [0.866025, 1.366025, 0.866025], atol=1e-5)
    np.testing.assert_allclose(advantage_N[9:], [-0.866025, -1.366025, -0.866025], atol=1e-5)


def test_tempo_of_identical_rollouts_has_no_difference(table_of: Any):
    table = table_of([[0, 1], [0, 1], [0, 0]], parent_B=[-1, 0, 0], branch_B=[0, 2, 1])
    assert tempo(table)[1] == tempo(table)[3]


# --- ARPO ------------------------------------------------------------------------------------------------------------


def test_arpo_worked_example(table_of: Any):
    """Branches of 1.5 and −0.5 share a turn: 0.5 there, their own after it."""
    table = table_of([[0, 1], [0, 0], [0], [0]], parent_B=[-1, 0, -1, -1], branch_B=[0, 1, 0, 0])
    np.testing.assert_allclose(arpo(table, mode="hard", eps=0.0), [0.5, 1.5, 0.5, -0.5, -0.5, -0.5], atol=1e-5)
    np.testing.assert_allclose(arpo(table, eps=0.0), [1.5, 1.5, -0.5, -0.5, -0.5, -0.5], atol=1e-5)


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_arpo_needs_branches(table_of: Any, mode: Any):
    """Also in the mode that does not look at them: without branches it is grpo under another name."""
    with pytest.raises(ShapeError, match="arpo needs column 'parent_B'"):
        arpo(table_of([[1], [0]]), mode=mode)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (portool, {"gamma": 1.2}),
        (portool, {"gamma": -0.1}),
        (portool, {"omega_fork": -1.0}),
        (portool, {"omega_trajectory": -1.0}),
        (portool, {"format_weight": -1.0}),
        (tree_rpo, {"scale": "std"}),
        (tree_rpo, {"prune": -1.0}),
        (tree_grpo, {"eps": -1.0}),
        (tempo, {"eps": float("nan")}),
        (tempo, {"ddof": 2}),
        (arpo, {"mode": "mixed"}),
        (arpo, {"eps": -1.0}),
    ],
)
def test_settings_out_of_range_are_refused(forked: Any, method: Any, options: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(options))):
        method(forked, **options)
