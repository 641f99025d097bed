"""CANON: halves by a second measure."""

from itertools import permutations
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.trainer.credit.canon import canon, low_half
from turngate.trainer.credit.dr_grpo import dr_grpo

NAN = float("nan")


@pytest.mark.parametrize(
    ("mu", "expected"),
    [(1.0, [0, -1, 0.5, 0.5]), (0.0, [0.5, -0.5, 0, 0]), (0.5, [0.25, -0.75, 0.25, 0.25])],
)
def test_halves_of_two(table_of: Any, mu: float, expected: list[float]):
    """Rewards 1, 0 in the short half and 1, 1 in the long one."""
    table = table_of([[1], [0], [1], [1]], tokens_N=[3, 1, 7, 5])
    np.testing.assert_allclose(canon(table, mu=mu), expected, atol=1e-6)


def test_measures(table_of: Any):
    """Trajectory 0 is shortest in tokens, longest in turns, and the most surprising per token."""
    table = table_of(
        [[0, 0, 1], [0]],
        tokens_N=[1, 1, 2, 9],
        surprisal_N=[2.0, NAN, 1.0, 0.5],
    )
    # The one in the low half faces the other; with two trajectories inter is the difference, intra 0.
    for by in ("tokens", "turns", "surprisal"):
        np.testing.assert_allclose(canon(table, by=by, mu=1.0), [1, 1, 1, -1], atol=1e-6)
    measures = {"tokens": [4, 9], "turns": [3, 1], "surprisal": [1.0, 0.5]}
    for by, measure in measures.items():
        low = low_half(np.array(measure, float), table.cohort_B)
        assert low.tolist() == ([1, 0] if by == "tokens" else [0, 1])


def test_surprisal_is_weighted_by_tokens(table_of: Any):
    """(2·1 + 1·9)/10 = 1.1 lies between 0.5 and 1.2."""
    table = table_of([[0, 1], [0], [0]], tokens_N=[1, 9, 10, 10], surprisal_N=[2.0, 1.0, 1.2, 0.5])
    assert canon(table, by="surprisal", mu=0.0).tolist() == [0.5, 0.5, 0, -0.5]


def test_surprisal_is_the_mean_over_known_tokens(table_of: Any):
    """(2·1 + 1·9)/10 = 1.1 is the highest of three, so the other two, both of reward 0, are the low half."""
    table = table_of([[0, 0, 1], [0], [0]], tokens_N=[1, 9, 50, 10, 10], surprisal_N=[2.0, 1.0, NAN, 1.05, 0.5])
    assert canon(table, by="surprisal", mu=0.0).tolist() == [0] * 5


def test_the_middle_belongs_to_the_low_half():
    assert low_half(np.array([5.0, 1.0, 3.0]), np.zeros(3, np.int32)).tolist() == [0, 1, 1]


def test_a_tie_at_the_cut_is_shared(table_of: Any):
    measure = np.array([1.0, 2.0, 2.0, 2.0])
    assert low_half(measure, np.zeros(4, np.int32)).tolist() == [1, 1 / 3, 1 / 3, 1 / 3]
    table = table_of([[1], [0], [0.5], [0.25]], tokens_N=[4, 4, 4, 4])
    for mu in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(canon(table, mu=mu), dr_grpo(table), atol=1e-6)


ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-4, 4), st.integers(1, 60)),
    min_size=1,
    max_size=9,
    unique_by=lambda row: row[2],
)


@given(ROWS, st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=40)
def test_against_plain_loops_without_ties(table_of: Any, rows: list[Any], mu: float):
    expected = []
    for cohort, reward, tokens in rows:
        group = sorted((t, r) for c, r, t in rows if c == cohort)
        cut = (len(group) + 1) // 2
        halves = [[r for _, r in group[:cut]], [r for _, r in group[cut:]]]
        is_high = (tokens, reward) in group[cut:]
        own, other = halves[is_high], halves[not is_high]
        expected.append(mu * (reward - fmean(other)) + (1 - mu) * (reward - fmean(own)) if other else 0.0)
    table = table_of([[r] for _, r, _ in rows], [c for c, *_ in rows], tokens_N=[t for *_, t in rows])
    np.testing.assert_allclose(canon(table, mu=mu), expected, atol=1e-5)


def test_the_order_of_tied_siblings_does_not_matter(table_of: Any):
    rows = [(1.0, 2), (0.0, 2), (0.5, 2), (0.25, 1)]
    results = {}
    for order in permutations(range(4)):
        advantage_N = canon(table_of([[rows[k][0]] for k in order], tokens_N=[rows[k][1] for k in order]), mu=0.8)
        results[order] = [round(float(advantage_N[order.index(k)]), 5) for k in range(4)]
    assert len({tuple(result) for result in results.values()}) == 1


@pytest.mark.parametrize("bad", [{"by": "entropy"}, {"mu": 1.5}, {"mu": -0.1}])
def test_settings_out_of_range_are_refused(table_of: Any, bad: dict[str, Any]):
    with pytest.raises(ConfigError, match="canon"):
        canon(table_of([[1], [0]], tokens_N=[1, 2]), **bad)
