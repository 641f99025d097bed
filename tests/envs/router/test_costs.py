"""Router-R1's cost reward: the worked numbers of the methods sheet, its limits, and why it stands behind a gate."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ShapeError
from turngate.rewards import Rubric
from turngate.rewards.outcome.costs import cost_bounds, cost_score
from turngate.rewards.rubric import FromEvidence
from turngate.rubrics import find_rubric
from turngate.types import Ending, Evidence, Record

COSTS = [100.0, 400.0, 900.0, 1600.0]
costs = st.lists(st.floats(0, 1e9), min_size=1, max_size=30)


def test_the_worked_numbers():
    low, high = cost_bounds(COSTS)
    assert (low, high) == pytest.approx((11.5, 38.5))
    assert [cost_score(cost, low, high) for cost in COSTS] == pytest.approx([1, 0.685185, 0.314815, 0], abs=1e-6)


@given(costs)
def test_the_quantiles_are_those_of_a_sorted_list(values):
    """By hand: linear interpolation between the two neighbours of place q·(n − 1)."""
    roots = sorted(math.sqrt(value) for value in values)

    def quantile(q):
        place = q * (len(roots) - 1)
        below = math.floor(place)
        above = min(below + 1, len(roots) - 1)
        return roots[below] + (place - below) * (roots[above] - roots[below])

    assert cost_bounds(values) == pytest.approx((quantile(0.05), quantile(0.95)), rel=1e-9, abs=1e-9)


@given(costs, st.floats(0, 1e9))
def test_a_score_lies_in_0_and_1_and_falls_with_the_cost(values, one):
    low, high = cost_bounds(values)
    scores = [cost_score(cost, low, high) for cost in sorted([*values, one])]
    assert all(0 <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)


def test_equal_bounds_tell_only_more_from_less():
    assert [cost_score(cost, 2.0, 2.0) for cost in (0.0, 4.0, 4.1)] == [1, 1, 0]


@pytest.mark.parametrize("wrong", [(-1.0, 0.0, 1.0), (1.0, 2.0, 1.0), (np.inf, 0.0, 1.0), (np.nan, 0.0, 1.0)])
def test_what_is_no_cost_is_refused(wrong):
    with pytest.raises(ShapeError, match="cost"):
        cost_score(*wrong)


def paid(rubric, *, correct, cheap):
    facts = (Evidence(name="correct", value=correct), Evidence(name="cost_score", value=cheap))
    record = Record(task_id="t", n_turns=0, ending=Ending.FINISHED, evidence=facts)
    return rubric.score(record).total


def test_without_a_gate_a_wrong_cheap_answer_beats_a_right_dear_one():
    """α = .6: .6 against .4. The check says so, and the shipped rubric pays the wrong one nothing."""
    ungated = Rubric(
        rewards=(
            FromEvidence(name="correct", evidence="correct", kind="outcome", weight=0.4, levels=(0, 1)),
            FromEvidence(name="cheap", evidence="cost_score", kind="process", weight=0.6),
        )
    )
    assert paid(ungated, correct=False, cheap=1.0) == pytest.approx(0.6)
    assert paid(ungated, correct=True, cheap=0.0) == pytest.approx(0.4)
    assert not ungated.check().safe
    shipped = find_rubric("router")
    assert shipped.check().safe
    assert find_rubric("router_window").check().safe
    assert paid(shipped, correct=False, cheap=1.0) == 0
    assert paid(shipped, correct=True, cheap=0.0) == 1
    assert paid(shipped, correct=True, cheap=1.0) == pytest.approx(1.4)
