"""Costs and information gain as rubric components: the same numbers as the flat functions, and no way to farm them."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards import (
    BestSoFar,
    Budget,
    FromEvidence,
    Once,
    Rubric,
    cap_process,
    requires,
)
from turngate.rewards.components import Charged, EventCost, InformationGain, LengthCost, Repetition
from turngate.types import Ending, Evidence, Record

WON = FromEvidence(name="won", evidence="won", kind="outcome")
YES_OR_NO = WON.model_copy(update={"levels": (0, 1)})
quick = settings(max_examples=25, deadline=None)


def near(expected: Any, tolerance: float = 1e-6) -> Any:
    return pytest.approx(expected, abs=tolerance, rel=0)


def fact(name: str, value: Any, turn: int | None = None) -> Evidence:
    return Evidence(name=name, value=value, turn=turn)


def per_turn(name: str, values: list[Any]) -> list[Evidence]:
    return [fact(name, value, turn) for turn, value in enumerate(values)]


def paid(component: Any, facts: list[Evidence], n_turns: int, won: Any = False) -> list[float]:
    """What the component alone pays on each turn."""
    record = Record(task_id="t", n_turns=n_turns, ending=Ending.FINISHED, evidence=(*facts, fact("won", won)))
    score = Rubric(rewards=(WON, component)).score(record)
    reward = [0.0] * n_turns
    for event in score.ledger:
        if event.name == component.name:
            reward[n_turns - 1 if event.turn is None else event.turn] += event.paid
    return reward


# --- charges ---------------------------------------------------------------------------------------------------------


def test_repeated_actions_cost_on_the_turn_where_they_happen():
    cost = Repetition(name="again", weight=-0.2, budget=2)
    keys = ["ls", "cat a", "ls", {"q": 1}, {"q": 1}, "ls", ""]
    assert paid(cost, per_turn("action_key", keys), 7) == near([0, 0, -0.1, 0, -0.1, 0, 0])


def test_a_repeat_in_another_state_is_no_repeat():
    cost = Repetition(name="again", state="state_key", weight=-1.0, budget=1)
    actions = per_turn("action_key", ["test", "test", "test", "test"])
    states = per_turn("state_key", ["s0", "s1", None, "s1"])
    assert paid(cost, actions + states, 4) == near([0, 0, 0, -1])


def test_void_turns_and_tool_spam():
    void = EventCost(name="void", evidence="void_turn", weight=-0.4)
    assert paid(void, per_turn("void_turn", [True, False, None, True]), 4) == near([-0.1, 0, 0, -0.1])
    spam = EventCost(name="spam", evidence="n_calls", free=3, budget=4, weight=-1.0)
    assert paid(spam, per_turn("n_calls", [2, 2, 0, 99]), 4) == near([0, -0.25, 0, -0.75])


def test_several_facts_about_one_turn_add_up():
    cost = EventCost(name="spam", evidence="n_calls", budget=4, weight=-1.0)
    assert paid(cost, [fact("n_calls", 1, 1), fact("n_calls", 2, 0), fact("n_calls", 1, 1)], 2) == near([-0.5, -0.5])


def test_what_was_not_measured_costs_no_event():
    record = Record(task_id="t", n_turns=2, ending=Ending.FINISHED, evidence=(fact("won", True),))
    cost = EventCost(name="void", evidence="void_turn")
    assert [event.name for event in Rubric(rewards=(WON, cost)).score(record).ledger] == ["won"]


amounts = st.lists(st.one_of(st.booleans(), st.integers(0, 5)), min_size=1, max_size=10)


@quick
@given(amounts, st.integers(0, 3), st.integers(1, 4))
def test_charges_are_their_definition_and_bounded(row: list[Any], free: int, budget: int):
    cost = EventCost(name="cost", evidence="n", free=free, budget=budget, weight=-0.3)
    used, expected = 0.0, []
    for amount in row:
        before, used = used, used + float(amount)
        part = min(max(used - free, 0), budget) - min(max(before - free, 0), budget)
        expected.append(-0.3 * part / budget)
    assert paid(cost, per_turn("n", row), len(row)) == near(expected)
    assert -0.3 - 1e-9 <= sum(expected) <= 0


@quick
@given(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8), st.lists(st.sampled_from("abc")))
def test_repeating_and_padding_never_raise_the_total(actions: list[str], extra: list[str]):
    cost = Repetition(name="again", weight=-0.2)

    def total(keys: list[str]) -> float:
        return sum(paid(cost, per_turn("action_key", keys), len(keys)))

    assert total(actions + extra) <= total(actions) + 1e-9
    assert total(actions + actions) <= total(actions) + 1e-9
    assert total(actions + [""] * 20) == near(total(actions))
    assert total(["a"] * 200) == near(-0.2)


def test_the_bounds_of_a_rubric_know_that_charges_are_bounded():
    cost = EventCost(name="void", evidence="void_turn", weight=-0.3)
    assert cost.span(math.inf) == (-0.3, 0.0)
    assert Rubric(rewards=(YES_OR_NO, cost)).check().safe
    assert not Rubric(rewards=(YES_OR_NO, EventCost(name="void", evidence="void_turn", weight=-1.5))).check().safe


def test_a_charge_that_fell_due_is_certain():
    """A later turn never changes what an earlier one cost, so an environment can pay it at once."""
    rubric = Rubric(rewards=(WON, EventCost(name="void", evidence="void_turn", weight=-1.0, budget=2)))
    facts = per_turn("void_turn", [True, False, True, True])
    certain = [
        rubric.certain(Record(task_id="t", n_turns=n, ending=Ending.FINISHED, evidence=tuple(facts[:n])))
        for n in range(1, 5)
    ]
    assert certain == near([-0.5, -0.5, -1.0, -1.0])


# --- lengths ---------------------------------------------------------------------------------------------------------


def test_turns_cost_among_successes_only():
    cost = LengthCost(name="turns", start=4, limit=8, only_if="won", weight=-0.1)
    assert [sum(paid(cost, [], n, won=True)) for n in (2, 4, 6, 8, 50)] == near([0, 0, -0.05, -0.1, -0.1])
    assert [sum(paid(cost, [], n, won=False)) for n in (2, 50)] == [0, 0]
    assert paid(cost, [], 6, won=1.0) == near([0, 0, 0, 0, 0, -0.05])


def test_a_graded_outcome_counts_as_success_from_its_threshold_on():
    cost = LengthCost(name="turns", start=0, limit=4, only_if="won", at_least=0.8)
    assert sum(paid(cost, [], 4, won=0.7)) == 0.0
    assert sum(paid(cost, [], 4, won=0.8)) == near(-0.1)


@pytest.mark.parametrize(("length", "expected"), [(0, 0.0), (16384, 0.0), (18432, -0.5), (20480, -1.0), (20481, -1.0)])
def test_overlong_tokens_cost_as_published(length: int, expected: float):
    cost = LengthCost(name="long", start=20480 - 4096, limit=20480, evidence="policy_tokens", weight=-1.0)
    facts = per_turn("policy_tokens", [length // 2, length - length // 2])
    assert sum(paid(cost, facts, 2)) == near(expected)


def test_a_length_or_condition_that_was_not_measured_costs_no_event():
    long = LengthCost(name="long", start=0, limit=10, evidence="policy_tokens")
    other = LengthCost(name="turns", start=0, limit=10, only_if="solved")
    record = Record(task_id="t", n_turns=3, ending=Ending.FINISHED, evidence=(fact("won", True),))
    assert [event.name for event in Rubric(rewards=(WON, long, other)).score(record).ledger] == ["won"]


# --- information gain ------------------------------------------------------------------------------------------------

beliefs = st.lists(st.one_of(st.none(), st.floats(-20, 0)), min_size=1, max_size=8)


@quick
@given(beliefs, st.one_of(st.none(), st.floats(-20, 0)))
def test_information_gain_is_its_definition_and_telescopes(logs: list[float | None], start: float | None):
    """A turn that was not measured is spanned by the next; the last turn earns nothing."""
    gain = InformationGain(name="gain", weight=0.5)
    facts = [*per_turn("gold_logprob", logs), fact("gold_logprob_start", start)]
    expected, before = [], start
    for turn, after in enumerate(logs):
        known = before is not None and after is not None and turn < len(logs) - 1
        expected.append(0.5 * (math.exp(after) - math.exp(before)) if known else 0.0)
        before = before if after is None else after
    total = paid(gain, facts, len(logs))
    assert total == near(expected)
    assert abs(sum(total)) <= 0.5 + 1e-9


def test_information_gain_is_bounded_for_a_rubric():
    assert InformationGain(name="gain", weight=0.3).span(math.inf) == (-0.3, 0.3)
    safety = Rubric(rewards=(YES_OR_NO, InformationGain(name="gain", weight=0.3))).check()
    assert safety.safe
    assert safety.process == near((-0.3, 0.3))


def oscillating(n_turns: int) -> list[Evidence]:
    """A belief that rises to 0.95 and falls back to 0.05, turn by turn, and a fact that is true where it rose."""
    logs = [math.log(0.95 if turn % 2 == 0 else 0.05) for turn in range(n_turns)]
    rises = [fact("rose", turn % 2 == 0, turn) for turn in range(n_turns)]
    return [fact("gold_logprob_start", math.log(0.05)), *per_turn("gold_logprob", logs), *rises]


@pytest.mark.parametrize(
    ("gates", "total", "holds"),
    [
        ((), 0.0, [True, True, True]),
        ((requires("rose", on="gain"),), 50 * 0.9 * 0.3, [False, False, False]),  # 13.5 from a belief that went nowhere
        ((requires("rose", on="gain"), Budget(on="gain", limit=0.4)), 0.4, [True, False, True]),
        ((requires("rose", on="gain"), cap_process(0.4)), 0.4, [True, False, True]),
        ((requires("rose", on="gain"), BestSoFar(on="gain")), 0.9 * 0.3, [True, True, True]),
        ((requires("rose", on="gain"), Once(on="gain")), 0.9 * 0.3, [True, False, True]),
        ((Budget(on="gain", limit=0.2),), 0.0, [True, True, True]),
    ],
)
def test_a_gate_per_turn_takes_the_bound_from_information_gain(gates: Any, total: float, holds: list[bool]):
    """A sum telescopes only with all its terms. 101 turns, because the last one earns nothing."""
    rubric = Rubric(rewards=(YES_OR_NO, InformationGain(name="gain", weight=0.3)), gates=gates)
    record = Record(task_id="t", n_turns=101, ending=Ending.FINISHED, evidence=(*oscillating(101), fact("won", False)))
    safety, score = rubric.check(), rubric.score(record)
    assert score.total == near(total)
    assert [safety[name].holds for name in ("I1", "I2", "I3")] == holds
    assert safety.process[0] - 1e-9 <= score.total <= safety.process[1] + 1e-9
    for bound in safety.bounds:
        if bound.better is not None and bound.worse is not None:
            for run in (bound.better, bound.worse):
                assert rubric.score(run.record).total == near(run.total)


# --- imagined episodes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize(
    "component",
    [
        EventCost(name="c", evidence="e", free=2, budget=3),
        Repetition(name="c", free=1, budget=2),
        Repetition(name="c", state="state_key"),
    ],
)
def test_imagined_evidence_earns_the_imagined_charges(component: Charged, value: float):
    verdicts = [(turn, value) for turn in range(3)]
    imagined = list(component.evidence_of(verdicts))
    assert paid(component, imagined, 3) == near([component.weight * value, 0, 0])


def test_imagined_lengths_and_beliefs():
    long = LengthCost(name="c", start=4, limit=8, evidence="tokens", weight=-1.0)
    assert paid(long, list(long.evidence_of([(None, 0.75)])), 2) == near([0, -0.75])
    assert LengthCost(name="c", start=4, limit=8).evidence_of([(None, 1.0)]) == ()
    gain = InformationGain(name="c")
    assert gain.evidence_of([]) == ()
    for value in (1.0, -1.0):
        assert paid(gain, list(gain.evidence_of([(0, value), (1, value)])), 3) == near([value, 0, 0])


@pytest.mark.parametrize(
    "component",
    [
        Repetition(name="c", weight=-1.5),
        EventCost(name="c", evidence="e", weight=-1.5),
        LengthCost(name="c", start=4, limit=8, weight=-1.5),
        LengthCost(name="c", start=4, limit=8, only_if="won", weight=-1.5),
        InformationGain(name="c", weight=1.5),
    ],
)
def test_a_check_shows_what_overtakes_what(component: Any):
    rubric = Rubric(rewards=(YES_OR_NO, component))
    safety = rubric.check()
    assert not safety["I1"].holds
    assert safety["I3"].holds
    for run in (safety["I1"].better, safety["I1"].worse):
        assert run is not None
        assert rubric.score(run.record).total == near(run.total)
    assert Rubric(rewards=(YES_OR_NO, component.model_copy(update={"weight": component.weight / 5}))).check().safe


# --- storing and bad input -------------------------------------------------------------------------------------------


def test_a_rubric_of_all_components_survives_json():
    rubric = Rubric(
        rewards=(
            WON,
            Repetition(name="again", state="state_key"),
            EventCost(name="void", evidence="void_turn"),
            LengthCost(name="turns", start=4, limit=8, only_if="won"),
            InformationGain(name="gain", weight=0.2),
        )
    )
    assert Rubric.model_validate_json(rubric.model_dump_json()) == rubric


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EventCost(name="x", evidence="e", weight=0.1), "negative weight"),
        (lambda: EventCost(name="x", evidence="e", agg="mean"), "leave low=0, high=1 and agg='sum'"),
        (lambda: EventCost(name="x", evidence="e", budget=0), "budget > 0"),
        (lambda: EventCost(name="x", evidence="e", free=-1), "free ≥ 0"),
        (lambda: LengthCost(name="x", start=5, limit=5), "start < limit"),
        (lambda: InformationGain(name="x", high=2.0), "sums gains of −1 to 1"),
    ],
)
def test_settings_that_break_the_bounds_raise(make: Any, words: str):
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(
    ("component", "facts", "words"),
    [
        (EventCost(name="c", evidence="e"), [fact("e", -1, 0)], "component 'c' of task 't', turn 0: read -1"),
        (EventCost(name="c", evidence="e"), [fact("e", math.inf, 0)], "turn 0, which 'c' reads, is inf"),
        (EventCost(name="c", evidence="e"), [fact("e", "yes", 0)], "read 'yes'"),
        (EventCost(name="c", evidence="e"), [fact("e", 1)], "its evidence names none"),
        (EventCost(name="c", evidence="e"), [fact("e", 1, 5)], "outside the episode's 2"),
        (Repetition(name="c"), [fact("action_key", "a")], "its evidence names none"),
        (LengthCost(name="c", start=0, limit=1, evidence="e"), [fact("e", math.nan, 0)], "which 'c' reads, is nan"),
        (LengthCost(name="c", start=0, limit=1, only_if="e"), [fact("e", "yes", 0)], "turn 0: read 'yes'"),
        (InformationGain(name="c"), [fact("gold_logprob", 0.5, 0)], "at most 0"),
        (InformationGain(name="c"), [fact("gold_logprob", -0.5)], "its evidence names none"),
        (InformationGain(name="c"), [fact("gold_logprob_start", math.nan)], "whole episode, which 'c' reads, is nan"),
    ],
)
def test_evidence_that_cannot_be_raises(component: Any, facts: list[Evidence], words: str):
    with pytest.raises(ValueError, match=words):
        paid(component, facts, 2)


def test_charged_is_abstract_about_what_it_counts():
    assert Charged.amounts.__isabstractmethod__
