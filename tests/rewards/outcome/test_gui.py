"""Step verdicts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.rewards.outcome import both_orders, step_verdicts, win_rate


def test_verdicts_on_steps():
    np.testing.assert_allclose(step_verdicts([True, False, None]), [1, 0, math.nan])
    np.testing.assert_allclose(step_verdicts([True, False, None], signed=True), [1, -1, math.nan])


def test_a_verdict_that_depends_on_the_order_is_a_tie():
    assert both_orders(1.0, 1.0) == 1.0
    assert both_orders(0.0, 0.0) == 0.0
    assert both_orders(1.0, 0.0) == both_orders(0.0, 1.0) == 0.5
    assert both_orders(None, 1.0) is both_orders(1.0, None) is None


def table(rows):
    won = np.array(rows, float)
    return np.where(np.tri(len(won), k=-1, dtype=bool), 1 - won.T, won)


def test_three_wins_of_four():
    won = table([[0, 1, 1, 1, 0]] + [[0] * 4 + [0.5]] * 4)
    assert win_rate(won)[0] == pytest.approx(0.25, abs=1e-5)


def test_a_cycle_of_preferences_pays_nothing():
    np.testing.assert_allclose(win_rate([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), [0, 0, 0], atol=1e-12)


def test_who_was_not_compared_has_no_reward():
    nan = math.nan
    np.testing.assert_allclose(win_rate([[nan, 1, nan], [0, nan, nan], [nan, nan, nan]]), [0.5, -0.5, nan])
    assert np.isnan(win_rate([[0.0]])).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=n * n, max_size=n * n)))
def test_full_comparisons_are_bounded_and_sum_to_zero(cells):
    size = math.isqrt(len(cells))
    rate = win_rate(table(np.reshape(cells, (size, size))))
    assert (abs(rate) <= 0.5).all()
    assert rate.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("bad", [[[0, 1], [1, 0]], [[0, 2], [-1, 0]], [[0, 1, 0]], [[0, 1], [math.nan, 0]]])
def test_tables_that_contradict_themselves(bad):
    with pytest.raises(ShapeError, match="won_NN"):
        win_rate(bad)
