"""One of k episodes is chosen: the sheets' numbers (F5, capabilities 15), brute force, and buckets of difficulty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.report.best_of import (
    PlayedEpisode,
    by_likelihood,
    by_verifier,
    by_vote,
    by_weighted_vote,
    chosen_curve,
    chosen_lines,
    majority,
)
from turngate.report.difficulty import BUCKETS, bucket_of, by_difficulty
from turngate.report.intervals import SuccessCount
from turngate.report.pass_at import pass_at

ALL = {
    "first": lambda block: block[0],
    "vote": by_vote,
    "weighted": by_weighted_vote,
    "verifier": by_verifier,
    "likelihood": by_likelihood,
}


def one(task: str, success: bool, answer: str | None = "A", *, logprob: float | None = -1.0, tokens: int = 5) -> Any:
    paid = float(success)
    more = {"logprob": logprob, "tokens": tokens, "stated": None, "may_state": False}
    return PlayedEpisode(task=task, success=success, answer=answer, paid=paid, **more)


def test_votes_of_the_sheet():
    answers = ["A", "A", "B", "B", "B"]
    assert answers[majority(answers)] == "B"
    assert answers[majority(answers, [0.9, 0.8, 0.3, 0.2, 0.4])] == "A"  # 1.7 against .9
    assert majority(["X", "Y", "Y", "X"]) == 0  # of equals, what came first
    assert majority([None, "A", None, None]) == 1  # no answer, no vote
    assert majority([None, None]) == 0
    with pytest.raises(ShapeError, match="at least one"):
        majority([])


def test_best_of_four_by_an_oracle_of_the_sheet():
    """Chance .3: 1 − .7⁴ = .7599, here by all 10⁴ ways to draw four of ten alike episodes, of which three succeed."""
    draws = np.stack(np.meshgrid(*[np.arange(10)] * 4), -1).reshape(-1, 4)
    blocks = [[one("t", bool(place < 3)) for place in draw] for draw in draws[::97]]
    assert np.mean([by_verifier(block).success for block in blocks]) == pytest.approx(0.7599, abs=0.05)
    assert np.mean((draws < 3).any(1)) == pytest.approx(0.7599)


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from("AB")), min_size=1, max_size=6), min_size=1, max_size=4)
)
def test_against_brute_force(tasks: Sequence[Sequence[tuple[bool, str]]]):
    """Every block of every task, tasks alike; where k is all episodes, the best by the verifier is pass@k."""
    episodes = [one(f"t{n}", won, answer) for n, rows in enumerate(tasks) for won, answer in rows]
    question = {f"t{n}": f"q{n // 2}" for n in range(len(tasks))}
    curve = chosen_curve(episodes, question, ALL)
    fewest = min(map(len, tasks))
    if fewest < 2:
        assert curve == {}
        return
    assert sorted(curve) == sorted({fewest, *(k for k in (1, 2, 4) if k <= fewest)})
    for k, at in curve.items():
        blocks = [[rows[i : i + k] for i in range(0, len(rows) - k + 1, k)] for rows in tasks]
        expected = np.mean([np.mean([any(won for won, _ in block) for block in own]) for own in blocks])
        assert at.success["verifier"].value == pytest.approx(expected)
        assert at.success["first"].value == pytest.approx(np.mean([np.mean([b[0][0] for b in own]) for own in blocks]))
        assert at.success["verifier"].low <= at.success["verifier"].value <= at.success["verifier"].high
        assert at.tokens == 5 * k
    if all(len(rows) == fewest for rows in tasks):
        each = [pass_at(sum(won for won, _ in rows), fewest, fewest) for rows in tasks]
        assert curve[fewest].success["verifier"].value == pytest.approx(np.mean(each))


def test_likelihood_and_votes_see_no_success():
    block = [one("t", True, "A", logprob=-2.0), one("t", False, "B", logprob=-0.5), one("t", True, "A", logprob=-9.0)]
    assert by_likelihood(block) is block[1]
    assert by_vote(block) is block[0]
    assert by_weighted_vote(block) is block[1]  # e^−.5 against e^−2 + e^−9
    assert by_likelihood([one("t", True, logprob=None), block[1]]) is block[1]
    (line, *_) = chosen_lines(chosen_curve(block, {"t": "q"}, {"vote": by_vote}))
    assert line == "of 1 episodes, 5 tokens a task: vote 66.7% (66.7% to 66.7%)"


@pytest.mark.parametrize(
    ("count", "bucket"),
    [
        (None, "not played"),
        ((0, 4), "never"),
        ((1, 4), "up to 1/4"),
        ((1, 3), "up to 1/2"),
        ((2, 4), "up to 1/2"),
        ((3, 4), "up to 3/4"),
        ((7, 8), "below 1"),
        ((8, 8), "always"),
    ],
)
def test_buckets(count: tuple[int, int] | None, bucket: str):
    assert bucket_of(None if count is None else SuccessCount(*count)) == bucket
    assert bucket in BUCKETS


def test_success_by_bucket():
    rates = {"a": SuccessCount(0, 4), "b": SuccessCount(4, 4)}
    tasks, won = ["a", "a", "b", "b", "c"], [True, False, True, True, False]
    found = by_difficulty(rates, tasks, tasks, won)
    assert {name: (n, rate.value) for name, (n, rate) in found.items()} == {
        "never": (1, 0.5),
        "always": (1, 1.0),
        "not played": (1, 0.0),
    }
    assert list(found) == ["never", "always", "not played"]
