"""``Rubric.book_last``: what a gate on the outcome decides stands on the last turn; nothing else changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards.gates.ladders import Hierarchical
from turngate.rewards.gates.shares import Soft, Trust
from turngate.rewards.gates.whole_kinds import NeedsOutcome, SuccessOnly, cap_process, needs_outcome, requires, veto
from turngate.rewards.rubric import FromEvidence, Rubric
from turngate.types import Ending, Evidence, Record

SOLVED = FromEvidence(name="solved", evidence="solved", kind="outcome")
STEP = FromEvidence(name="step", evidence="step", weight=0.5, per_turn=True, agg="sum")
WASTE = FromEvidence(name="waste", evidence="waste", kind="penalty", weight=-0.25, per_turn=True, agg="sum")
STYLE = FromEvidence(name="style", evidence="style", weight=0.1)
REWARDS = (SOLVED, STEP, WASTE, STYLE)
GATES = (needs_outcome(0.5), cap_process(1.2))


def record(*, solved=1.0, steps=(1.0, 0.0, 1.0), waste=(1.0, 0.0, 0.0), style=1.0, answered=True):
    facts = [Evidence(name="solved", value=solved), Evidence(name="style", value=style)]
    facts += [Evidence(name="step", value=value, turn=turn) for turn, value in enumerate(steps)]
    facts += [Evidence(name="waste", value=value, turn=turn) for turn, value in enumerate(waste)]
    facts += [Evidence(name="answered", value=answered)]
    return Record(task_id="t", n_turns=len(steps), ending=Ending.FINISHED, evidence=tuple(facts))


def booked(gates=GATES, rewards=REWARDS):
    return Rubric(rewards=rewards, gates=gates, book_last=True)


def test_process_payments_move_to_the_end_and_penalties_stay():
    plain = Rubric(rewards=REWARDS, gates=GATES).score(record())
    moved = booked().score(record())
    np.testing.assert_allclose(plain.reward_T, [0.5 - 0.25, 0, 0.5 + 1 + 0.1], atol=1e-6)
    np.testing.assert_allclose(moved.reward_T, [-0.25, 0, 0.5 + 0.5 + 1 + 0.1], atol=1e-6)
    assert moved.ledger == plain.ledger
    assert (moved.outcome, moved.usable) == (plain.outcome, plain.usable)


@given(
    solved=st.sampled_from([0.0, 0.5, 1.0]),
    turns=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=5),
)
@settings(max_examples=50)
def test_nothing_else_changes(solved, turns):
    steps, waste = zip(*turns, strict=True)
    made = record(solved=solved, steps=steps, waste=waste)
    plain, moved = Rubric(rewards=REWARDS, gates=GATES).score(made), booked().score(made)
    assert moved.ledger == plain.ledger
    assert moved.total == plain.total
    assert float(moved.reward_T.sum()) == pytest.approx(moved.total, abs=1e-5)
    paid = [event.paid for event in moved.ledger if event.name == "waste"]
    np.testing.assert_allclose(moved.reward_T[:-1], paid[:-1], atol=1e-6)


@pytest.mark.parametrize(
    "gate",
    [
        needs_outcome(0.5),
        SuccessOnly(on=("step",)),
        Soft(on="step", at_least=0.5, answered="answered"),
        Hierarchical(levels=(("solved",), ("step",)), at_least=(0.5,)),
    ],
    ids=lambda gate: gate.type,
)
def test_every_gate_that_waits_for_the_end_is_late(gate):
    assert gate.late
    moved = booked(gates=(gate,)).score(record())
    assert moved.reward_T[0] == pytest.approx(-0.25)
    assert moved.total == pytest.approx(float(moved.reward_T.sum()), abs=1e-6)


def test_a_gate_that_compares_siblings_is_late_too():
    judge = FromEvidence(name="step", evidence="step", weight=0.5, per_turn=True)
    rubric = booked(gates=(Trust(on="step"),), rewards=(SOLVED, judge, WASTE))
    good = record(steps=(1.0, 1.0), waste=(0.0, 0.0))
    bad = record(solved=0.0, steps=(0.0, 0.0), waste=(0.0, 0.0))
    first, _ = rubric.score_records([good, bad])
    np.testing.assert_allclose(first.reward_T, [0.0, 1.5], atol=1e-6)


@pytest.mark.parametrize(
    "gate", [requires("answered", on="step"), cap_process(0.4), veto("wrote")], ids=lambda g: g.type
)
def test_other_gates_are_not(gate):
    assert not gate.late


@pytest.mark.parametrize(
    ("gates", "rewards"),
    [
        ((), REWARDS),
        ((cap_process(0.4),), REWARDS),
        ((needs_outcome(0.5),), (SOLVED, WASTE, STYLE)),  # the process is paid at the end already
        ((NeedsOutcome(at_least=0.5),), (SOLVED, WASTE)),
    ],
)
def test_booking_without_anything_to_book_is_refused(gates, rewards):
    with pytest.raises(ConfigError, match="book_last has no effect: no gate on the outcome decides"):
        booked(gates, rewards)


def test_it_survives_a_trip_through_json_and_a_copy():
    rubric = booked()
    assert Rubric.model_validate_json(rubric.model_dump_json()).book_last
    copied = rubric.model_copy(update={"gates": (needs_outcome(1.0),)})
    assert copied.book_last
    assert not Rubric(rewards=REWARDS, gates=GATES).book_last


def test_what_is_certain_during_the_episode_is_not_what_is_booked_last():
    """Steps hang on the outcome; waste hangs on nothing, so it is paid at once with and without booking."""
    for rubric in (Rubric(rewards=REWARDS, gates=GATES), booked()):
        assert rubric.certain(record()) == pytest.approx(-0.25)
