"""RLOO against its worked numbers."""

from typing import Any

import numpy as np

from turngate.trainer.credit.grpo import grpo
from turngate.trainer.credit.rloo import rloo


def test_one_success_in_four(table_of: Any):
    advantage_N = rloo(table_of([[1], [0], [0], [0]]))
    assert advantage_N.dtype == np.float32
    np.testing.assert_allclose(advantage_N, [1, -1 / 3, -1 / 3, -1 / 3], atol=1e-6)


def test_every_turn_gets_its_trajectory_s_number(table_of: Any):
    assert rloo(table_of([[0, 1], [0, 0, 0]])).tolist() == [1, 1, -1, -1, -1]


def test_centring_is_n_minus_one_over_n_of_it(table_of: Any):
    table = table_of([[1], [0.5], [0], [0], [0.25]])
    np.testing.assert_allclose(grpo(table, std=False), rloo(table) * 4 / 5, atol=1e-6)
