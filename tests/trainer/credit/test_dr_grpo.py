"""Dr. GRPO against its worked numbers."""

from typing import Any

import numpy as np

from turngate.trainer.credit.dr_grpo import dr_grpo
from turngate.trainer.credit.rloo import rloo


def test_one_success_in_four(table_of: Any):
    assert dr_grpo(table_of([[1], [0], [0], [0]])).tolist() == [0.75, -0.25, -0.25, -0.25]


def test_it_is_three_quarters_of_rloo_in_a_cohort_of_four(table_of: Any):
    table = table_of([[1, 0.5], [0.25], [0], [0, 0, 2]])
    np.testing.assert_allclose(dr_grpo(table), 0.75 * rloo(table), atol=1e-6)
