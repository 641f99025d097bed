"""Step verdicts."""

import math

import numpy as np

from turngate.rewards.outcome import both_orders, step_verdicts


def test_verdicts_on_steps():
    np.testing.assert_allclose(step_verdicts([True, False, None]), [1, 0, math.nan])
    np.testing.assert_allclose(step_verdicts([True, False, None], signed=True), [1, -1, math.nan])


def test_a_verdict_that_depends_on_the_order_is_a_tie():
    assert both_orders(1.0, 1.0) == 1.0
    assert both_orders(0.0, 0.0) == 0.0
    assert both_orders(1.0, 0.0) == both_orders(0.0, 1.0) == 0.5
    assert both_orders(None, 1.0) is both_orders(1.0, None) is None
