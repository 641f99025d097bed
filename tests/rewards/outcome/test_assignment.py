"""The best one-to-one pairing, against trying all of them."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.rewards.outcome.assignment import best_assignment


def brute_force(weight):
    rows, columns = len(weight), len(weight[0])
    if rows > columns:
        return brute_force([list(column) for column in zip(*weight, strict=True)])
    return max(sum(weight[i][j] for i, j in enumerate(order)) for order in permutations(range(columns), rows))


matrices = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(
        st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=shape[1], max_size=shape[1]),
        min_size=shape[0],
        max_size=shape[0],
    )
)


@settings(max_examples=60, deadline=None)
@given(matrices)
def test_it_is_as_good_as_the_best_of_all_pairings(weight):
    pairs = best_assignment(weight)
    rows, columns = [row for row, _ in pairs], [column for _, column in pairs]
    assert len(pairs) == min(len(weight), len(weight[0]))
    assert len(set(rows)) == len(rows)
    assert len(set(columns)) == len(columns)
    assert sum(weight[i][j] for i, j in pairs) == pytest.approx(brute_force(weight))


def test_it_stays_exact_where_a_path_goes_through_many_rows():
    rng = np.random.default_rng(0)
    for _ in range(150):
        weight = rng.integers(0, 10, (4, 5)).astype(float).tolist()
        assert sum(weight[i][j] for i, j in best_assignment(weight)) == brute_force(weight)


def test_it_is_not_greedy():
    assert best_assignment([[0.9, 0.8], [0.8, 0.0]]) == ((0, 1), (1, 0))


def test_a_large_case_matches_a_known_answer():
    size = 60
    order = np.random.default_rng(3).permutation(size)
    weight = np.random.default_rng(4).uniform(0, 1, (size, size))
    weight[np.arange(size), order] += 2
    assert best_assignment(weight) == tuple(enumerate(order.tolist()))


def test_an_empty_side_has_no_pairs():
    assert best_assignment(np.zeros((0, 3))) == best_assignment(np.zeros((3, 0))) == ()


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[np.nan]], [[np.inf]]])
def test_what_is_no_finite_matrix_is_refused(bad):
    with pytest.raises(ShapeError, match="matrix of finite numbers"):
        best_assignment(bad)
