"""How a judge is measured."""

import pytest

from tests.helpers.scripted_judge import DOWN, said, yes
from tests.judging.labelled_rows import ROWS, grader, measure, work
from turngate.rewards.judge import FaultKind


def test_the_numbers_of_a_judge_that_reads_digits(tmp_path):
    result = measure(grader, ROWS, tmp_path)
    assert (result.work.n_positive, result.work.n_negative) == (3, 2)
    assert result.work.false_positive == 0.0
    assert result.work.false_positive_bound == pytest.approx(1 - 0.05 ** (1 / 2))
    assert result.work.false_negative == pytest.approx(1 / 3)  # six in letters
    assert result.work.kappa == pytest.approx((0.8 - 0.48) / 0.52)
    assert (result.order.n, result.order.consistency, result.order.accuracy) == (2, 1.0, 1.0)
    assert result.order.first_share == 0.5
    assert (result.n_canaries, result.n_missed, result.n_unmeasured) == (22, 0, 0)


def test_labelled_pairs_and_a_judge_that_likes_the_first_place(tmp_path):
    def first_place(prompt, n):
        if "A and B" not in prompt:
            return yes(prompt)
        return {"evidence": [{"answer": "A", "turn": 0, "quote": said(prompt)[0]}], "a": 9, "b": 1}

    rows = [
        {"task": "t", "first": "the left answer", "second": "the right answer", "label": label}
        for label in ("first", "tie")
    ]
    result = measure(first_place, rows, tmp_path)
    assert (result.order.n, result.order.consistency, result.order.first_share) == (2, 0.0, 1.0)
    assert result.order.accuracy == 0.5  # the settled tie
    assert result.work.n == 0
    assert result.n_missed > 0  # it likes everything that can be quoted


def test_a_judge_that_fails_is_not_measured(tmp_path):
    result = measure(lambda prompt, n: DOWN, ROWS, tmp_path)
    assert (result.work.n, result.work.n_missing, result.work.false_positive) == (0, 5, None)
    assert (result.order.n, result.order.n_missing, result.n_unmeasured) == (0, 2, 22)
    assert result.tally.faults[FaultKind.UNAVAILABLE] == result.tally.n_calls


def test_the_judge_is_asked_about_master_keys_that_are_labelled(tmp_path):
    """Rules would hide what the judge itself accepts."""
    result = measure(lambda prompt, n: yes(prompt), [work("t", "Thought process:", False)], tmp_path)
    assert result.work.false_positive == 1.0
