"""Columns are checked once."""

import math

import numpy as np
import pytest

from turngate.errors import ShapeError
from turngate.rewards import columns

NAN = math.nan


@pytest.mark.parametrize(("spread", "same"), [(0.5e-6, True), (2e-6, False)])
@pytest.mark.parametrize("level", [0.0, -1.0, 1000.0])
def test_a_range_within_rounding_is_no_range(spread: float, same: bool, level: float):
    scale = max(1.0, abs(level))
    assert bool(columns.alike(level, level + spread * scale, level)) is same


def test_sums_and_counts_leave_out_what_is_missing():
    traj = np.array([0, 0, 2, 2, 2])
    values = np.array([1, NAN, 2, 3, NAN])
    assert columns.totals(values, traj, 4).tolist() == [1, 0, 5, 0]
    assert columns.counts(~np.isnan(values), traj, 4).tolist() == [1, 0, 2, 0]


def test_columns_that_do_not_fit_raise():
    with pytest.raises(ShapeError, match="must not decrease"):
        columns.owners([0, 1, 0])
    with pytest.raises(ShapeError, match="there are only 2"):
        columns.owners([0, 2], 2)
    with pytest.raises(ShapeError, match=r"traj_N has shape \(1, 1\)"):
        columns.owners([[0]])
    with pytest.raises(ShapeError, match=r"x\[1\] is nan; it must be finite"):
        columns.numbers("x", [0, NAN])
    with pytest.raises(ShapeError, match=r"x\[\(0, 1\)\] is 2.0; it must be at most 1"):
        columns.numbers("x", [[0, 2]], high=1.0)
    with pytest.raises(ShapeError, match="binarise"):
        columns.flags("x", [0.5], (1,))
