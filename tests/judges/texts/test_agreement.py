"""How a judge is measured on labelled work."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judges.texts.pairs import scores
from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts import agreement, kappa, order_report, upper_bound


def test_no_false_positive_in_three_hundred_canaries():
    """One-sided 95 % bound 1 − 0.05^(1/300) = 0.009936."""
    assert upper_bound(0, 300) == pytest.approx(0.009936, abs=1e-6)
    assert upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300), abs=1e-12)


def test_bounds_by_the_definition():
    """At the bound, so few errors have probability 5 %."""
    bound = upper_bound(2, 10)
    tail = sum(
        np.prod([10 - j for j in range(k)]) / [1, 1, 2][k] * bound**k * (1 - bound) ** (10 - k) for k in range(3)
    )
    assert tail == pytest.approx(0.05, abs=1e-9)
    assert upper_bound(10, 10) == 1.0
    assert upper_bound(3, 10) > bound > 0.2
    for errors, n, confidence in ((-1, 3, 0.9), (4, 3, 0.9), (0, 0, 0.9), (0, 3, 1.0)):
        with pytest.raises(ConfigError, match="need 0 ≤ errors"):
            upper_bound(errors, n, confidence=confidence)


def test_rates_leave_out_rows_without_verdict():
    found = agreement(
        [True, True, False, None, False, True],
        [0.9, 0.8, 0.1, None, 0.2, 0.7],
        [True, False, False, False, True, True],
        [10, 10, 10, 99, 10, 10],
    )
    assert (found.n, found.n_missing, found.n_negative, found.n_positive) == (5, 1, 2, 3)
    assert found.false_positive == pytest.approx(1 / 2)
    assert found.false_negative == pytest.approx(1 / 3)
    assert found.length_correlation is None  # all are equally long
    assert agreement([None], [None], [True], [1.0]).false_negative is None
    with pytest.raises(ShapeError, match="differ in number"):
        agreement([True], [0.9], [True], [])


def test_kappa_by_hand():
    """Observed 0.7; expected 0.6 · 0.5 + 0.4 · 0.5 = 0.5; κ = 0.4."""
    judge = [True] * 6 + [False] * 4
    truth = [True] * 4 + [False] * 2 + [True] + [False] * 3
    assert kappa(judge, truth) == pytest.approx(0.4)
    assert kappa([True, False], [True, False]) == 1.0
    assert kappa([True, True], [True, True]) is None
    assert kappa([], []) is None
    with pytest.raises(ShapeError):
        kappa([True], [])


def test_length_counts_inside_each_label_only():
    """Right answers are longer here, but among equals the judge does not care; and then it does."""
    passed, label, length = [True, True, False, False], [True, True, False, False], [100, 120, 10, 30]
    assert agreement(passed, [0.9, 0.9, 0.1, 0.1], label, length).length_correlation is None
    assert agreement(passed, [0.8, 0.9, 0.1, 0.2], label, length).length_correlation == pytest.approx(1.0)
    assert agreement(passed, [0.9, 0.8, 0.2, 0.1], label, length).length_correlation == pytest.approx(-1.0)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 500)), min_size=3, max_size=20))
@settings(max_examples=40)
def test_with_one_label_it_is_pearsons_correlation(rows):
    scores, lengths = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    if scores.std() < 1e-3 or lengths.std() < 1e-3:
        return
    found = agreement([True] * len(rows), scores.tolist(), [True] * len(rows), lengths.tolist()).length_correlation
    assert found == pytest.approx(np.corrcoef(scores, lengths)[0, 1], abs=1e-9)


def test_order_consistency():
    replies = [
        (scores(9, 1), scores(1, 9)),  # the first is better, wherever it stands
        (scores(9, 1), scores(9, 1)),  # whoever stands first
        (scores(9, 1), scores(9, 1)),
        (scores(5, 5), scores(5, 5)),
        None,
    ]
    found = order_report(replies, [1.0, 0.0, 0.5, None, 1.0])
    assert (found.n, found.n_missing) == (4, 1)
    assert found.consistency == pytest.approx(2 / 4)
    assert found.first_share == pytest.approx(5 / 6)
    assert found.accuracy == pytest.approx(2 / 3)
    empty = order_report([], [])
    assert (empty.consistency, empty.first_share, empty.accuracy) == (None, None, None)
    with pytest.raises(ShapeError):
        order_report([None], [])
