"""λ-GRPO: shared turns weigh one over the number of siblings that share them."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.trainer.credit.arpo import arpo
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.lambda_grpo import lambda_grpo as rule

lambda_grpo = partial(rule, merge="recorded")


def branched(table_of: Any, rows: Any, parents: Any, branches: Any, cohorts: Any = None) -> Any:
    return table_of(rows, cohorts, parent_B=np.array(parents, np.int32), branch_B=np.array(branches, np.int32))


def test_two_of_four_share_their_first_turns(table_of: Any):
    table = branched(table_of, [[0, 0, 1], [0, 0, 0], [0], [0]], [-1, 0, -1, -1], [0, 2, 0, 0])
    expected = [0.75, 0.75, 1.5, -0.25, -0.25, -0.5, -0.5, -0.5]
    np.testing.assert_allclose(lambda_grpo(table, eps=0.0), expected, atol=1e-6)
    np.testing.assert_allclose(lambda_grpo(table, std=False), np.array(expected) / 2, atol=1e-6)


def test_a_branch_of_a_branch_shares_with_both(table_of: Any):
    """0 → 1 at turn 2 → 2 at turn 1, and 3 off 2 at turn 3, which is 2's own turn."""
    rows = [[0, 0, 1], [0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    table = branched(table_of, rows, [-1, 0, 1, 2], [0, 2, 1, 3])
    weight_N = lambda_grpo(table, eps=0.0) / arpo(table, eps=0.0)  # arpo compares all siblings, also those that share
    expected = [1 / 4, 1 / 2, 1, 1 / 4, 1 / 2, 1, 1 / 4, 1 / 2, 1 / 2, 1, 1 / 4, 1 / 2, 1 / 2, 1]
    np.testing.assert_allclose(weight_N, expected, atol=1e-6)


def test_siblings_that_only_wrote_the_same_share_nothing(table_of: Any):
    table = branched(table_of, [[0, 1], [0, 1], [0, 0]], [-1, -1, -1], [0, 0, 0])
    np.testing.assert_array_equal(lambda_grpo(table), grpo(table, eps=1e-4))


def test_a_branch_into_another_cohort_shares_nothing(table_of: Any):
    table = branched(table_of, [[0, 1], [0, 0], [0, 1], [0, 0]], [-1, -1, 0, -1], [0, 0, 1, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(lambda_grpo(table), grpo(table, eps=1e-4))


@pytest.mark.parametrize(
    ("parents", "branches", "match"),
    [([-1, 5], [0, 1], "parent_B"), ([1, 0], [1, 1], "parent_B"), ([-1, 0], [0, 3], "branch_B")],
)
def test_parents_that_cannot_be_are_refused(table_of: Any, parents: Any, branches: Any, match: str):
    with pytest.raises(ShapeError, match=match):
        lambda_grpo(branched(table_of, [[0, 1], [0, 0]], parents, branches))


@pytest.mark.parametrize("bad", [{"eps": -1.0}, {"ddof": 2}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="lambda_grpo"):
        lambda_grpo(branched(table_of, [[1], [0]], [-1, -1], [0, 0]), **bad)
