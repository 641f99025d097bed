"""QAE: the quantile that is somebody's reward."""

from math import inf
from statistics import pstdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.qae import lower_quantile, qae


def ones(table_of: Any, n: int, of: int) -> Any:
    return table_of([[1]] * n + [[0]] * (of - n))


@pytest.mark.parametrize(("ddof", "rare", "missed"), [(0, 3.023716, -2.309401), (1, 2.828427, -2.160247)])
def test_rare_successes_and_rare_failures(table_of: Any, ddof: int, rare: float, missed: float):
    np.testing.assert_allclose(qae(ones(table_of, 1, 8), eps=0.0, ddof=ddof), [rare] + [0] * 7, atol=1e-5)
    np.testing.assert_allclose(qae(ones(table_of, 6, 8), eps=0.0, ddof=ddof), [0] * 6 + [missed] * 2, atol=1e-5)


def test_five_ones_of_eight_have_baseline_one_and_not_four_fifths(table_of: Any):
    advantage_N = qae(ones(table_of, 5, 8))
    assert advantage_N[:5].tolist() == [0] * 5
    assert (advantage_N[5:] < -1.9).all()


@pytest.mark.parametrize(("k", "n", "rank"), [(0.28, 25, 7), (0.1, 10, 1), (0.4, 5, 2), (0.6, 5, 3), (1.0, 3, 3)])
def test_products_that_are_whole_numbers_stay_whole(k: float, n: int, rank: int):
    values = np.arange(1.0, n + 1)[::-1].copy()
    assert lower_quantile(values, np.zeros(n, np.int32), k).tolist() == [rank]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-6, 6)), min_size=1, max_size=12),
    st.sampled_from([0.25, 0.4, 0.6, 1.0]),
)
@settings(max_examples=40)
def test_against_the_definition(table_of: Any, rows: list[tuple[int, int]], k: float):
    expected = []
    for cohort, reward in rows:
        group = [r for c, r in rows if c == cohort]
        baseline = inf
        for x in group:
            if sum(r <= x for r in group) / len(group) >= k - 1e-12:
                baseline = min(baseline, x)
        expected.append((reward - baseline) / (pstdev(group) + 1e-6) if len(set(group)) > 1 else 0.0)
    table = table_of([[reward] for _, reward in rows], [cohort for cohort, _ in rows])
    np.testing.assert_allclose(qae(table, k=k, ddof=0), expected, atol=1e-4)


@pytest.mark.parametrize("bad", [{"k": 0.0}, {"k": 1.1}, {"eps": -1.0}, {"ddof": 3}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="qae"):
        qae(ones(table_of, 1, 2), **bad)
