"""Pass@k against its worked numbers and against all subsets."""

from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.pass_at_k import pass_at_k


@pytest.mark.parametrize(
    ("n", "wins", "k", "up", "down"),
    [(4, 1, 2, 1.0, -1 / 3), (8, 1, 4, 1.0, -1 / 7), (4, 3, 2, 0.0, 0.0), (8, 2, 4, 0.522233, -0.174078)],
)
def test_worked_numbers(table_of: Any, n: int, wins: int, k: int, up: float, down: float):
    advantage_N = pass_at_k(table_of([[1]] * wins + [[0]] * (n - wins)), k=k, eps=0.0)
    np.testing.assert_allclose(advantage_N, [up] * wins + [down] * (n - wins), atol=1e-5)
    assert advantage_N.sum() == pytest.approx(0.0, abs=1e-5)


@given(st.lists(st.booleans(), min_size=2, max_size=7), st.integers(1, 7))
@settings(max_examples=40)
def test_it_is_the_mean_over_all_groups_of_k(table_of: Any, won: list[bool], k: int):
    """Each subset of k is one sample worth 1 if anyone won, standardised over all subsets."""
    n = len(won)
    k = min(k, n)
    worth = {subset: float(any(won[i] for i in subset)) for subset in combinations(range(n), k)}
    mean = fmean(worth.values())
    sigma = (mean * (1 - mean)) ** 0.5
    expected = [
        fmean((worth[subset] - mean) / sigma for subset in worth if i in subset) if sigma > 1e-9 else 0.0
        for i in range(n)
    ]
    np.testing.assert_allclose(pass_at_k(table_of([[float(w)] for w in won]), k=k, eps=0.0), expected, atol=1e-5)


def test_one_try_is_grpo_with_the_population_std(table_of: Any):
    table = table_of([[1], [0], [0], [1], [1], [0], [0]], [0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(pass_at_k(table, k=1, eps=0.0), grpo(table, eps=0.0, ddof=0), atol=1e-6)


def test_a_veto_takes_a_success_back_and_process_cannot_make_one(table_of: Any):
    table = table_of([[1.4], [-1.0], [0.6], [0.0]], outcome=[1, 1, 0, 0])
    np.testing.assert_allclose(pass_at_k(table, k=2, eps=0.0), [1, -1 / 3, -1 / 3, -1 / 3], atol=1e-6)


def test_a_cohort_smaller_than_k_gets_nothing(table_of: Any):
    table = table_of([[1], [0], [0], [1], [0]], [0, 0, 0, 1, 1])
    assert pass_at_k(table, k=3)[3:].tolist() == [0, 0]
    with pytest.raises(ConfigError, match="k is 4, but no cohort has more than 3 trajectories"):
        pass_at_k(table, k=4)


@pytest.mark.parametrize("bad", [{"k": 0}, {"eps": -1.0}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="pass_at_k"):
        pass_at_k(table_of([[0], [1]]), **bad)
