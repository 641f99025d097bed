"""GRPO and Dr.GRPO against the worked numbers of their definitions."""

from typing import Any

import numpy as np
import pytest

from turngate.errors import ConfigError
from turngate.trainer.credit.grpo import grpo

ONE_OF_FOUR = [[1], [0], [0], [0]]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"eps": 0.0}, [1.5, -0.5, -0.5, -0.5]),
        ({"eps": 0.0, "ddof": 0}, [1.7320508, -0.5773503, -0.5773503, -0.5773503]),
        ({}, [1.499997, -0.499999, -0.499999, -0.499999]),
        ({"eps": 1e-4}, [1.4997, -0.4999, -0.4999, -0.4999]),
        ({"std": False}, [0.75, -0.25, -0.25, -0.25]),
    ],
)
def test_one_success_in_four(table_of: Any, settings: dict[str, Any], expected: list[float]):
    advantage_N = grpo(table_of(ONE_OF_FOUR), **settings)
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N, expected, atol=1e-6 if settings.get("eps") != 1e-4 else 1e-4)


@pytest.mark.parametrize("totals", [[1.05, 0.95, 0.05, -0.05], [2.5179, 2.2781, 0.1199, -0.1199]])
def test_the_std_cancels_the_scale_of_a_cohort(table_of: Any, totals: list[float]):
    """I4: the second row is 2.398 times the first."""
    expected = [0.947900, 0.775555, -0.775555, -0.947900]
    np.testing.assert_allclose(grpo(table_of([[t] for t in totals]), eps=0.0), expected, atol=1e-5)


def test_a_bonus_on_the_only_success_disappears(table_of: Any):
    """I5."""
    expected = [1.5, -0.5, -0.5, -0.5]
    np.testing.assert_allclose(grpo(table_of([[1, 0.5], [0], [0], [0]]), eps=0.0), [1.5, *expected], atol=1e-6)


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_the_std_inflates_tie_breakers_when_all_outcomes_are_equal(table_of: Any, weight: float):
    """I7: the weight of the process term is irrelevant."""
    rows = [[1 + weight * p] for p in (0.1, 0.2, 0.3, 0.4)]
    expected = [-1.161895, -0.387298, 0.387298, 1.161895]
    np.testing.assert_allclose(grpo(table_of(rows), eps=0.0), expected, atol=1e-3 if weight == 0.01 else 1e-5)


def test_ungated_accumulation_ranks_the_empty_patch_above_a_pass_with_little_process(table_of: Any):
    """Direct sums 1.4, 0.8, 1.5 against gated sums 1.4, 0.8, −0.5."""
    np.testing.assert_allclose(
        grpo(table_of([[1.4], [0.8], [1.5]]), eps=0.0), [0.440225, -1.144586, 0.704361], atol=1e-5
    )
    np.testing.assert_allclose(
        grpo(table_of([[1.4], [0.8], [-0.5]]), eps=0.0), [0.857998, 0.240239, -1.098237], atol=1e-5
    )


def test_every_turn_gets_its_trajectory_s_number(table_of: Any):
    advantage_N = grpo(table_of([[0, 0, 1], [0]]), std=False)
    assert advantage_N.tolist() == [0.5, 0.5, 0.5, -0.5]


@pytest.mark.parametrize("settings", [{"eps": -1e-6}, {"ddof": 2}, {"ddof": -1}])
def test_settings_out_of_range_are_refused(table_of: Any, settings: dict[str, Any]):
    with pytest.raises(ConfigError, match="eps"):
        grpo(table_of(ONE_OF_FOUR), **settings)
