"""pass@k: worked numbers, every subset counted, and a curve with intervals over questions."""

from itertools import combinations
from math import comb

import pytest

from turngate.errors import ShapeError
from turngate.report.pass_at import pass_at, pass_curve, pass_line


def test_worked_numbers():
    assert pass_at(2, 8, 4) == pytest.approx(0.785714, abs=1e-6)
    assert pass_at(2, 5, 2) == pytest.approx(0.7)


@pytest.mark.parametrize("n", range(1, 7))
def test_it_is_the_share_of_all_subsets_with_a_success(n: int):
    for successes in range(n + 1):
        marks = [1] * successes + [0] * (n - successes)
        for k in range(1, n + 1):
            subsets = list(combinations(marks, k))
            assert pass_at(successes, n, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_it_is_unbiased_for_the_best_of_k_where_the_share_of_successes_is_not():
    """p = 0.3, k = 4: the best of four has 1 − 0.7⁴ = 0.7599, the mean of pass@4 over all outcomes of 6 episodes."""

    chance = [comb(6, c) * 0.3**c * 0.7 ** (6 - c) for c in range(7)]
    assert sum(p * pass_at(c, 6, 4) for c, p in enumerate(chance)) == pytest.approx(0.7599)
    assert sum(p * (1 - (1 - c / 6) ** 4) for c, p in enumerate(chance)) < 0.73


def test_a_curve_rises_and_its_first_point_is_the_rate():
    task = [f"t{n}" for n in range(6) for _ in range(6)]
    success = [sibling < number for number in range(6) for sibling in range(6)]
    curve = pass_curve(task, task, success)
    assert list(curve) == [1, 2, 4, 6]
    assert curve[1].value == pytest.approx(sum(success) / len(success))
    assert curve[6].value == pytest.approx(5 / 6)
    values = [at.value for at in curve.values()]
    assert values == sorted(values)
    assert all(at.low <= at.value <= at.high for at in curve.values())
    assert "pass@6 83.3% (" in pass_line(curve)


def test_tasks_of_one_question_are_drawn_together():
    task = [f"t{n}" for n in range(8) for _ in range(2)]
    success = [n < 8 for n in range(16)]
    apart = pass_curve(task, task, success)[2]
    together = pass_curve(task, ["a"] * 8 + ["b"] * 8, success)[2]
    assert apart.value == together.value == 0.5
    assert (together.low, together.high) == (0.0, 1.0)
    assert apart.high - apart.low < 1


def test_a_task_that_was_played_once_has_no_curve():
    assert pass_curve(["a", "b", "b"], ["a", "b", "b"], [True, False, True]) == {}
    assert pass_line({}) == ""


@pytest.mark.parametrize(("successes", "n", "k"), [(1, 2, 3), (1, 2, 0), (3, 2, 1)])
def test_what_cannot_be_is_an_error(successes: int, n: int, k: int):
    with pytest.raises(ShapeError):
        pass_at(successes, n, k)
