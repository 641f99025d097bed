"""Calibration: the sheet's numbers (capabilities 10), brute force, and intervals by distinct question."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.report.stated_odds import auroc, brier_score, calibration, calibration_error, calibration_line

CONFIDENCE = st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
EPISODES = st.lists(st.tuples(CONFIDENCE, st.booleans(), st.integers(0, 3)), min_size=1, max_size=12)


def test_the_numbers_of_the_sheet():
    """Labels 1, 0, 1, 0 and scores .9, .4, .3, .2: AUC ¾, Brier .175."""
    scores, labels = [0.9, 0.4, 0.3, 0.2], [1, 0, 1, 0]
    assert auroc(scores, labels) == 0.75
    assert brier_score(scores, labels) == pytest.approx(0.175)
    assert calibration_error(scores, labels) == pytest.approx((0.1 + 0.4 + 0.7 + 0.2) / 4)  # each has a bin of its own
    assert calibration_error(scores, labels, bins=2) == pytest.approx((abs(0.9 - 1) + abs(0.9 - 1)) / 4)


@given(EPISODES, st.sampled_from([1, 4, 10]))
def test_against_brute_force(rows: Sequence[tuple[float, bool, int]], bins: int):
    confidence, success, weight = [c for c, _, _ in rows], [y for _, y, _ in rows], [w + 1 for _, _, w in rows]
    spread = [(c, y) for c, y, w in rows for _ in range(w + 1)]  # an episode of weight w, w times
    error = 0.0
    for at in range(bins):
        own = [(c, y) for c, y in spread if at / bins <= c < (at + 1) / bins or (c == 1 and at == bins - 1)]
        if own:
            error += len(own) / len(spread) * abs(np.mean([y for _, y in own]) - np.mean([c for c, _ in own]))
    assert calibration_error(confidence, success, weight_B=weight, bins=bins) == pytest.approx(error)
    assert brier_score(confidence, success, weight_B=weight) == pytest.approx(
        np.mean([(c - y) ** 2 for c, y in spread])
    )
    won, lost = [c for c, y in spread if y], [c for c, y in spread if not y]
    found = auroc(confidence, success, weight_B=weight)
    if won and lost:
        assert found == pytest.approx(np.mean([(a > b) + (a == b) / 2 for a in won for b in lost]))
    else:
        assert found is None


def test_intervals_draw_questions_and_not_episodes():
    """40 episodes of one question tell less than 40 questions, whatever the number of episodes."""
    confidence, success = [0.8, 0.3] * 20, [True, False, True, True] * 10
    alike = calibration(confidence, success, [f"q{n % 4}" for n in range(40)])
    apart = calibration(confidence, success, [f"q{n}" for n in range(40)])
    assert alike.brier.value == apart.brier.value
    assert alike.brier.high - alike.brier.low > apart.brier.high - apart.brier.low
    assert apart.brier.low < apart.brier.value < apart.brier.high
    one = calibration(confidence, success, ["q"] * 40)
    assert one.brier == (one.brier.value,) * 3
    assert calibration([0.5], [True], ["q"]).auroc is None
    line = calibration_line("stated confidence", apart)
    assert line.startswith("stated confidence, 40 episodes: calibration error (10 bins) 0.")
    assert calibration_line("x", calibration([0.5], [True], ["q"])).endswith("AUROC –")


@pytest.mark.parametrize(
    ("confidence", "success", "said"),
    [([1.2], [True], "confidence is 1.2"), ([0.5], [], "1 confidences, 0 successes"), ([], [], "at least one episode")],
)
def test_what_is_no_probability_is_refused(confidence: list[float], success: list[bool], said: str):
    for score in (brier_score, calibration_error, auroc):
        with pytest.raises(ShapeError, match=said):
            score(confidence, success)
    with pytest.raises(ShapeError, match="bins is 0"):
        calibration_error([0.5], [True], bins=0)
