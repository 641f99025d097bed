"""The tables of success rates: matching, wording and width."""

import io

import pytest
from rich.console import Console

from turngate.errors import ShapeError
from turngate.report.intervals import SuccessCount
from turngate.report.tables import Success, comparison_markdown, note, print_comparison

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
        "No evaluated episode got help. Intervals: Wilson for a rate, at the effective number of episodes where "
        "several ask one question; for a difference a bootstrap over distinct questions where both sides were asked "
        "the same, else Newcombe. 3 unusable episodes are left out of 'solved'; "
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
