"""Intervals against worked numbers and against their definitions; the tables' matching, wording and width."""

import io
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from turngate.errors import ShapeError
from turngate.report.tables import (
    Success,
    SuccessCount,
    by_question,
    comparison_markdown,
    newcombe,
    note,
    paired_difference,
    print_comparison,
    wilson,
)

# --- intervals -------------------------------------------------------------------------------------------------------


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


# --- the table -------------------------------------------------------------------------------------------------------


def success(successes, n, **changes):
    return Success(**({"split": "heldout", "temperature": 1.0, "successes": successes, "n": n} | changes))


def test_success_checks_itself():
    with pytest.raises(ShapeError, match="3 successes of 2"):
        success(3, 2)
    with pytest.raises(ShapeError, match="by_question adds up to 1 of 1, not to 1 of 2"):
        success(1, 2, by_question={"a": SuccessCount(1, 1)})


def test_the_markdown_table_word_for_word():
    before = [success(48, 80, tasks=80, questions=41), success(10, 20, temperature=0.0), success(1, 4, split="new")]
    after = [success(56, 70, tasks=80, questions=41, unusable=10), success(5, 5, split="train", tasks=5, questions=5)]
    assert comparison_markdown({"before": before, "after": after}).splitlines() == [
        "| split   | temperature | phase  | tasks | questions | episodes | unusable | solved, % [95 %]    | of all, % "
        "| minus before, points |",
        "|---------|-------------|--------|-------|-----------|----------|----------|---------------------|-----------"
        "|----------------------|",
        "| heldout | 1           | before | 80    | 41        | 80       | 0        | 60.0 [49.0, 70.0]   | 60.0      "
        "| –                    |",
        "| heldout | 1           | after  | 80    | 41        | 80       | 10       | 80.0 [69.2, 87.7]   | 70.0      "
        "| +20.0 [+5.2, +33.4]  |",
        "| heldout | greedy      | before | –     | –         | 20       | 0        | 50.0 [29.9, 70.1]   | 50.0      "
        "| –                    |",
        "| new     | 1           | before | –     | –         | 4        | 0        | 25.0 [4.6, 69.9]    | 25.0      "
        "| –                    |",
        "| train   | 1           | after  | 5     | 5         | 5        | 0        | 100.0 [56.6, 100.0] | 100.0     "
        "| –                    |",
    ]


def test_the_note_says_what_an_interval_is_and_what_was_left_out():
    assert note([success(1, 2), success(1, 2, unusable=3)]) == (
        "No evaluated episode got help. Intervals: Wilson for a rate; for a difference a bootstrap over distinct "
        "questions where both sides were asked the same, else Newcombe. 3 unusable episodes are left out of 'solved'; "
        "'of all, %' counts them as failures."
    )
    assert "unusable" not in note([success(1, 2)])


def test_rates_of_all_episodes_are_shown_only_where_some_were_unusable_and_their_number_always():
    whole = comparison_markdown({"before": [success(3, 12)], "after": [success(9, 12)]})
    assert "of all" not in whole
    assert [line.split("|")[7].strip() for line in whole.splitlines()[2:]] == ["0", "0"]
    lost = comparison_markdown({"before": [success(0, 0, unusable=4)], "after": [success(2, 2, unusable=6)]})
    cells = [[cell.strip() for cell in line.split("|")[6:10]] for line in lost.splitlines()[2:]]
    assert cells == [["4", "4", "–", "0.0"], ["8", "6", "100.0 [34.2, 100.0]", "25.0"]]


def test_the_same_tasks_are_compared_in_pairs():
    tasks = {f"t{i}": SuccessCount(i % 2, 2) for i in range(6)}
    gained = {task: SuccessCount(t.successes + 1, 2) for task, t in tasks.items()}
    before = [success(3, 12, by_question=tasks)]
    lines = comparison_markdown({"before": before, "after": [success(9, 12, by_question=gained)]})
    assert "+50.0 [+50.0, +50.0]" in lines
    others = {f"u{i}": t for i, t in enumerate(gained.values())}
    lines = comparison_markdown({"before": before, "after": [success(9, 12, by_question=others)]})
    assert "+50.0 [+10.1, +72.8]" in lines


def test_every_phase_is_compared_with_the_first():
    phases = {"before": [success(0, 10)], "supervised-400": [success(5, 10)], "after": [success(9, 10)]}
    lines = comparison_markdown(phases).splitlines()[2:]
    assert [line.split("|")[3].strip() for line in lines] == ["before", "supervised-400", "after"]
    assert [line.split("|")[9].split()[0] for line in lines] == ["–", "+50.0", "+90.0"]
    assert "minus" not in comparison_markdown({"eval": [success(0, 10)]})


# The widest that there is: a share of 100 %, a difference of 100 points, four digits of each count.
WIDE = {
    "before": [success(0, 5000, tasks=1000, questions=1000, split="[red]x")],
    "supervised-12800": [success(4000, 4000, tasks=1000, questions=None, unusable=1000, split="[red]x")],
}
WIDE_LINES = """
split '[red]x'
                              tasks    episodes
 temp. phase            (questions)  (unusable)       solved, % [95 %] of all, %
     1 before           1000 (1000)    5000 (0)         0.0 [0.0, 0.1]       0.0
       supervised-12800    1000 (–) 5000 (1000)   100.0 [99.9, 100.0]      80.0
       difference                               +100.0 [+99.9, +100.0]
"""


def test_the_terminal_table_fits_into_80_columns_with_every_number_and_no_markup():
    out = io.StringIO()
    print_comparison(Console(file=out, width=80, force_terminal=True, color_system=None), WIDE)
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert [line.split() for line in out.getvalue().splitlines()] == [
        line.split() for line in WIDE_LINES.strip().splitlines()
    ]


def test_the_terminal_table_has_one_part_per_split_and_only_the_columns_that_are_needed():
    out = io.StringIO()
    played = [success(1, 4), success(2, 4, temperature=0.0), success(3, 4, split="new")]
    print_comparison(Console(file=out, width=80), {"before": played})
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert [line[1] for line in lines if line[0] == "split"] == ["'heldout'", "'new'"]
    assert [line[0] for line in lines if "before" in line] == ["1", "greedy", "1"]
    assert "of all" not in out.getvalue()


def test_two_results_for_one_row_are_refused():
    with pytest.raises(ShapeError, match="two results for split 'heldout' at temperature 1"):
        comparison_markdown({"before": [success(1, 2), success(2, 2)]})
