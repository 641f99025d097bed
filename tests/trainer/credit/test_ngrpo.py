"""NGRPO: an imagined success among the siblings."""

from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.ngrpo import ngrpo


@pytest.mark.parametrize(("ddof", "expected"), [(1, -1 / 3), (0, -0.353553)])
def test_eight_failures(table_of: Any, ddof: int, expected: float):
    np.testing.assert_allclose(ngrpo(table_of([[0]] * 8), eps=0.0, ddof=ddof), [expected] * 8, atol=1e-5)


def test_one_success_of_eight(table_of: Any):
    advantage_N = ngrpo(table_of([[1]] + [[0]] * 7), eps=0.0)
    np.testing.assert_allclose(advantage_N, [1.763834] + [-0.503953] * 7, atol=1e-5)


def test_all_at_the_best_get_zero(table_of: Any):
    assert ngrpo(table_of([[1]] * 8)).tolist() == [0] * 8
    assert not ngrpo(table_of([[0.9]] * 12), best=0.9, eps=1e-8).any()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=10),
    st.integers(1, 3),
)
@settings(max_examples=40)
def test_against_plain_loops(table_of: Any, rows: list[tuple[int, int]], imagined: int):
    expected = []
    for cohort, reward in rows:
        group = [float(r) for c, r in rows if c == cohort]
        seen = group + [4.0] * imagined
        silent = len(group) < 2 or len(set(seen)) == 1
        expected.append(0.0 if silent else (reward - fmean(seen)) / (stdev(seen) + 1e-6))
    table = table_of([[reward] for _, reward in rows], [cohort for cohort, _ in rows])
    np.testing.assert_allclose(ngrpo(table, best=4.0, imagined=imagined), expected, atol=1e-5)


def test_a_total_above_the_best_is_refused(table_of: Any):
    with pytest.raises(ConfigError, match=r"trajectory 1 was paid 1\.5, above best=1; raise best"):
        ngrpo(table_of([[0], [1, 0.5]]))


@pytest.mark.parametrize("bad", [{"imagined": -1}, {"eps": -1.0}, {"ddof": 2}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="ngrpo"):
        ngrpo(table_of([[0], [1]]), **bad)
