"""Gates that limit one component: once, budget, best so far."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, UnknownName
from turngate.rewards import (
    BestSoFar,
    Budget,
    FromEvidence,
    Gate,
    Once,
    Rubric,
    requires,
)
from turngate.types import Ending, Evidence, Record, Score

WON = FromEvidence(name="won", evidence="won", kind="outcome")
VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]), min_size=1, max_size=12)


def play(*gates: Gate, values: Any, weight: float = 1.0, low: float = 0.0, ok: Any = ()) -> Score:
    step = FromEvidence(name="step", evidence="step", per_turn=True, agg="sum", weight=weight, low=low)
    facts = [Evidence(name="step", value=value, turn=turn) for turn, value in enumerate(values)]
    facts += [Evidence(name="ok", value=True, turn=turn) for turn in ok]
    record = Record(
        task_id="t", n_turns=len(values), ending=Ending.FINISHED, evidence=(*facts, Evidence(name="won", value=False))
    )
    return Rubric(rewards=(WON, step), gates=gates).score(record)


def paid(score: Score) -> list[float]:
    return [event.paid for event in score.ledger if event.name == "step"]


def test_once_pays_the_first_act_that_is_worth_anything():
    score = play(Once(on="step"), values=[0, 0.4, 1, 1], weight=0.5)
    assert paid(score) == pytest.approx([0, 0.2, 0, 0])
    assert [event.gate for event in score.ledger[1:]] == ["", "", "once(step)", "once(step)"]
    assert paid(play(requires("ok", on="step"), Once(on="step"), values=[1, 1, 1], ok=[1, 2])) == [0, 1, 0]


def test_a_budget_is_spent_in_turn_order_with_losses_apart():
    assert paid(play(Budget(on="step", limit=1.2), values=[0.5, 0.5, 0.5, 0.5])) == pytest.approx([0.5, 0.5, 0.2, 0])
    score = play(Budget(on="step", limit=0.6), values=[0.5, -1, 1, -1, 0], low=-1.0)
    assert paid(score) == pytest.approx([0.5, -0.6, 0.1, 0, 0])
    assert [event.factor for event in score.ledger[1:]] == pytest.approx([1, 0.6, 0.1, 0, 1])
    assert paid(play(Budget(on="step", limit=0.0), values=[1, 1])) == [0, 0]


def test_best_so_far_pays_new_ground_only():
    assert paid(play(BestSoFar(on="step"), values=[0.2, 0.5, 0.4, 0.6])) == pytest.approx([0.2, 0.3, 0, 0.1])
    assert paid(play(BestSoFar(on="step", start=0.4), values=[0.2, 0.5, 0.4, 0.6])) == pytest.approx([0, 0.1, 0, 0.1])
    assert paid(play(BestSoFar(on="step"), values=[-1, -0.5, 0, 0.5], low=-1.0)) == pytest.approx([0, 0, 0, 0.5])


def test_best_so_far_does_not_count_what_was_closed():
    score = play(requires("ok", on="step"), BestSoFar(on="step"), values=[0.6, 0.6, 0.8], ok=[1, 2])
    assert paid(score) == pytest.approx([0, 0.6, 0.2])


def test_a_weight_below_zero_turns_gains_into_costs():
    assert paid(play(BestSoFar(on="step"), values=[0.2, 0.5, 0.4], weight=-1.0)) == pytest.approx([-0.2, -0.3, 0])
    assert paid(play(Once(on="step"), values=[0.2, 0.5], weight=-1.0)) == pytest.approx([-0.2, 0])


MEAN = FromEvidence(name="mean", evidence="mean", per_turn=True)
SUM = FromEvidence(name="sum", evidence="sum", per_turn=True, agg="sum")
WHOLE = FromEvidence(name="whole", evidence="whole")


@pytest.mark.parametrize(
    ("gate", "error", "match"),
    [
        (lambda: Once(on="summ"), UnknownName, r"did you mean 'sum'\? in once\(summ\)"),
        (lambda: BestSoFar(on="summ"), UnknownName, r"did you mean 'sum'\? in best_so_far\(summ\)"),
        (lambda: Once(on="won"), ConfigError, "would cut the outcome 'won'"),
        (lambda: Once(on="mean"), ConfigError, "agg='sum'"),
        (lambda: Once(on="whole"), ConfigError, "agg='sum'"),
        (lambda: BestSoFar(on="mean"), ConfigError, "agg='sum'"),
        (lambda: BestSoFar(on="sum", start=1.0), ConfigError, "never opens"),
        (lambda: BestSoFar(on="sum", start=-0.1), ValueError, "start"),
        (lambda: BestSoFar(on="sum", start=float("nan")), ValueError, "start"),
        (lambda: Budget(on="whol", limit=0.1), UnknownName, "did you mean 'whole'"),
        (lambda: Budget(on="mean", limit=1.0), ConfigError, "never closes: 'mean' pays 0 to 1"),
        (lambda: Budget(on="sum", limit=-0.1), ConfigError, "limit=-0.1"),
        (lambda: Budget(on="sum", limit=float("nan")), ConfigError, "limit=nan"),
        (lambda: Budget(on="won", limit=0.5), ConfigError, "outcome"),
    ],
)
def test_gates_that_cannot_work_are_refused(gate: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        Rubric(rewards=(WON, MEAN, SUM, WHOLE), gates=(gate(),))


# --- farming ---------------------------------------------------------------------------------------------------------


@given(VALUES, st.data())
@settings(max_examples=60)
def test_repeating_an_act_never_pays_again(values: list[float], data: Any):
    """Inserting a copy of any earlier verdict, anywhere after it, leaves what once and best_so_far pay as it was."""
    place = data.draw(st.integers(0, len(values) - 1))
    later = data.draw(st.integers(place + 1, len(values)))
    spammed = [*values[:later], values[place], *values[later:]]
    for gate in (Once(on="step"), BestSoFar(on="step"), BestSoFar(on="step", start=0.3)):
        assert play(gate, values=spammed).total == pytest.approx(play(gate, values=values).total)


@given(VALUES, st.integers(1, 5))
@settings(max_examples=60)
def test_padding_with_empty_turns_never_pays(values: list[float], n: int):
    for gate in (Once(on="step"), BestSoFar(on="step"), Budget(on="step", limit=0.4)):
        assert play(gate, values=values + [0.0] * n).total == pytest.approx(play(gate, values=values).total)


@given(VALUES, VALUES)
@settings(max_examples=60)
def test_no_amount_of_acts_pays_more_than_the_limit(values: list[float], more: list[float]):
    for gate, limit in ((Once(on="step"), 1.0), (BestSoFar(on="step"), 1.0), (Budget(on="step", limit=0.4), 0.4)):
        for played in (values, values + more, (values + more) * 4):
            assert 0 <= play(gate, values=played).total <= limit + 1e-9


@given(VALUES)
@settings(max_examples=60)
def test_best_so_far_pays_the_maximum_and_budget_the_minimum_of_sum_and_limit(values: list[float]):
    assert play(BestSoFar(on="step"), values=values).total == pytest.approx(max(values))
    assert play(Budget(on="step", limit=0.9), values=values).total == pytest.approx(min(sum(values), 0.9))
    first = next((value for value in values if value), 0.0)
    assert play(Once(on="step"), values=values).total == pytest.approx(first)
