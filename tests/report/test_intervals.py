"""Intervals against worked numbers and against their definitions."""

from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.report.intervals import (
    SuccessCount,
    by_question,
    newcombe,
    paired_difference,
    rate_by_question,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (8, 10, 0.490163, 0.943318),
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (50, 100, 0.403832, 0.596168),
        (81, 263, 0.255289, 0.366209),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_in_numbers(successes, n, low, high):
    assert wilson(successes, n, z=1.959964) == pytest.approx((low, high), abs=1e-6)
    assert wilson(successes, n) == pytest.approx((low, high), abs=2e-5)


@given(n=st.integers(1, 500), data=st.data())
def test_wilson_bounds_are_where_the_observed_share_is_z_errors_away(n, data):
    successes = data.draw(st.integers(0, n))
    low, high = wilson(successes, n, z=1.645)
    assert 0 <= low <= successes / n <= high <= 1
    for bound in (low, high):
        assert abs(successes / n - bound) == pytest.approx(1.645 * sqrt(bound * (1 - bound) / n), abs=1e-9)


def test_wilson_covers_about_what_it_says():
    """Exact coverage, by summing the binomial: near 95 % at moderate shares."""
    n = 60
    for p in (0.1, 0.3, 0.5, 0.8):
        hits = [k for k in range(n + 1) if wilson(k, n)[0] <= p <= wilson(k, n)[1]]
        assert 0.92 < sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in hits) < 0.98


@pytest.mark.parametrize(("successes", "n"), [(-1, 10), (11, 10), (0, -1)])
def test_impossible_counts_are_refused(successes, n):
    with pytest.raises(ShapeError, match=f"{successes} successes of {n}"):
        wilson(successes, n)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Newcombe 1998, table II, method 10, contrasts (a) to (e), (g) and (h).
        ((48, 80), (56, 70), (0.2, 0.0524, 0.3339)),
        ((3, 10), (9, 10), (0.6, 0.1705, 0.8090)),
        ((2, 7), (6, 7), (4 / 7, 0.0582, 0.8062)),
        ((0, 29), (5, 56), (5 / 56, -0.0381, 0.1926)),
        ((0, 20), (0, 10), (0.0, -0.1611, 0.2775)),
        ((0, 20), (10, 10), (1.0, 0.6791, 1.0)),
        ((0, 10), (10, 10), (1.0, 0.6075, 1.0)),
    ],
)
def test_newcombe_in_numbers(before, after, expected):
    assert newcombe(SuccessCount(*before), SuccessCount(*after)) == pytest.approx(expected, abs=1e-4)


def test_newcombe_needs_both_sides():
    with pytest.raises(ShapeError, match="there are 0 and 5"):
        newcombe(SuccessCount(0, 0), SuccessCount(1, 5))


def test_the_bootstrap_against_drawing_tasks_one_by_one():
    rng = np.random.default_rng(5)
    before = {f"t{i}": SuccessCount(int(rng.integers(0, 5)), 4) for i in range(12)}
    after = {task: SuccessCount(min(4, t.successes + int(rng.integers(0, 2))), 4) for task, t in before.items()}
    tasks, slow = list(before), []
    for _ in range(4000):
        drawn = [tasks[i] for i in rng.integers(len(tasks), size=len(tasks))]
        slow.append(sum(after[t].successes - before[t].successes for t in drawn) / (4 * len(drawn)))
    value, low, high = paired_difference(before, after)
    assert value == pytest.approx(sum(after[t].successes - before[t].successes for t in tasks) / 48)
    assert (low, high) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.011)


def test_pairing_takes_out_what_makes_a_task_easy():
    """Half of the tasks are easy. Every task gains one of ten: paired, that is certain; unpaired, it drowns."""
    before = {f"t{i}": SuccessCount(8 if i % 2 else 0, 10) for i in range(20)}
    after = {task: SuccessCount(t.successes + 1, 10) for task, t in before.items()}
    assert paired_difference(before, after) == pytest.approx((0.1, 0.1, 0.1))
    unpaired = newcombe(SuccessCount(80, 200), SuccessCount(100, 200))
    assert unpaired.high - unpaired.low > 0.15


def test_the_bootstrap_is_seeded_and_counts_episodes():
    before = {"a": SuccessCount(1, 1), "b": SuccessCount(0, 9), "c": SuccessCount(2, 4)}
    after = {"a": SuccessCount(1, 1), "b": SuccessCount(9, 9), "c": SuccessCount(1, 4)}
    many = {f"{task}{i}": SuccessCount(t.successes, t.n) for i in range(9) for task, t in before.items()}
    grown = {f"{task}{i}": SuccessCount(t.successes, t.n) for i in range(9) for task, t in after.items()}
    assert paired_difference(many, grown, seed=1, resamples=9) != paired_difference(many, grown, seed=2, resamples=9)
    first = paired_difference(before, after, seed=1)
    assert first == paired_difference(before, after, seed=1)
    assert first.value == pytest.approx(11 / 14 - 3 / 14)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"a": SuccessCount(1, 1), "b": SuccessCount(1, 1)}, {"a": SuccessCount(1, 1)}, "'b' and 0 other tasks"),
        ({"a": SuccessCount(1, 1)}, {"a": SuccessCount(1, 1)}, "at least 2 tasks; there are 1"),
        (
            {"a": SuccessCount(1, 1), "b": SuccessCount(0, 0)},
            {"a": SuccessCount(1, 1), "b": SuccessCount(1, 1)},
            "'b' has no episodes",
        ),
    ],
)
def test_what_cannot_be_paired_is_refused(before, after, message):
    with pytest.raises(ShapeError, match=message):
        paired_difference(before, after)


def test_by_question_counts():
    assert by_question(["a", "b", "a"], [True, False, False]) == {"a": SuccessCount(1, 2), "b": SuccessCount(0, 1)}
    with pytest.raises(ShapeError, match="2 questions but 1 successes"):
        by_question(["a", "b"], [True])


# --- rates by question ------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_with_an_episode_per_question_it_is_wilson(success_B):
    found = rate_by_question({str(number): SuccessCount(int(won), 1) for number, won in enumerate(success_B)})
    assert found == pytest.approx((np.mean(success_B), *wilson(sum(success_B), len(success_B))))


def test_episodes_of_one_question_that_end_alike_are_worth_a_question():
    """80 questions, each asked five times and always answered alike: 400 episodes tell what 80 do."""
    alike = {str(number): SuccessCount(5 * (number < 32), 5) for number in range(80)}
    value, low, high = rate_by_question(alike)
    assert value == 0.4
    once = wilson(32, 80)
    assert (low, high) == pytest.approx(once, abs=2e-3)  # n - 1 in place of n: 399/79 instead of 5 for deff
    assert high - low > 1.9 * (wilson(160, 400)[1] - wilson(160, 400)[0])


def test_the_design_effect_is_the_variance_of_drawing_questions():
    """Its effective number against a bootstrap over questions, of questions that are asked unequally often."""
    rng = np.random.default_rng(0)
    counts = {}
    for number in range(150):
        n = int(rng.integers(1, 6))
        counts[str(number)] = SuccessCount(int(rng.binomial(n, rng.beta(0.5, 0.8))), n)
    value, low, high = rate_by_question(counts)
    table_Q = np.array(list(counts.values()), np.float64)
    drawn = table_Q[rng.integers(150, size=(20_000, 150))].sum(axis=1)
    error = (drawn[:, 0] / drawn[:, 1]).std()
    assert value == table_Q[:, 0].sum() / table_Q[:, 1].sum()
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.04)  # Wilson's is a little narrower near 1/2


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=30))
def test_rates_and_their_bounds_stay_in_range(pairs):
    counts = {str(number): SuccessCount(min(pair), pair[1]) for number, pair in enumerate(pairs)}
    value, low, high = rate_by_question(counts)
    assert 0 <= low <= value <= high <= 1
    assert low < high  # nothing is certain, also where every episode ended alike


def test_a_rate_of_nothing_and_a_question_of_nothing():
    assert rate_by_question({}) == pytest.approx((float("nan"), 0.0, 1.0), nan_ok=True)
    with pytest.raises(ShapeError, match="question 'b' has no episodes; leave it out"):
        rate_by_question({"a": SuccessCount(1, 1), "b": SuccessCount(0, 0)})


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_differences_stay_between_minus_one_and_one(pairs, successes):
    before, after = ({str(i): SuccessCount(pair[side], 3) for i, pair in enumerate(pairs)} for side in (0, 1))
    for found in (
        paired_difference(before, after, resamples=50),
        newcombe(*(SuccessCount(number, 30) for number in successes)),
    ):
        assert -1 - 1e-12 <= found.low <= found.value + 1e-12 <= found.high + 2e-12 <= 1 + 3e-12
