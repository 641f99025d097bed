"""Each gate on its own, and what happens when they meet."""

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.errors import ConfigError
from turngate.rewards import (
    CapProcess,
    FromEvidence,
    Gate,
    NeedsOutcome,
    Requires,
    Rubric,
    Veto,
    cap_process,
    needs_outcome,
    requires,
    veto,
)
from turngate.types import Ending, Evidence, Record, Score

WON = FromEvidence(name="won", evidence="won", kind="outcome")
STEP = FromEvidence(name="step", evidence="step", per_turn=True, agg="sum", low=-1.0, weight=0.1)
TIDY = FromEvidence(name="tidy", evidence="tidy", weight=0.5)
SLOW = FromEvidence(name="slow", evidence="slow", kind="penalty", weight=-0.2)


def play(*gates: Gate, won: bool = True, steps: tuple[float, ...] = (1, 1, -1), **facts: Any) -> Score:
    evidence = [Evidence(name="step", value=value, turn=turn) for turn, value in enumerate(steps)]
    evidence += [Evidence(name="won", value=won), Evidence(name="tidy", value=True), Evidence(name="slow", value=True)]
    for name, value in facts.items():
        measured = value if isinstance(value, dict) else {None: value}
        evidence += [Evidence(name=name, value=v, turn=turn) for turn, v in measured.items()]
    record = Record(task_id="t", n_turns=len(steps), ending=Ending.FINISHED, evidence=tuple(evidence))
    return Rubric(rewards=(WON, STEP, TIDY, SLOW), gates=gates).score(record)


def factors(score: Score, name: str) -> list[float]:
    return [event.factor for event in score.ledger if event.name == name]


def closed_by(score: Score, name: str) -> list[str]:
    return [event.gate for event in score.ledger if event.name == name]


def test_factories_are_the_gates():
    assert veto("wrote", floor=-0.5) == Veto(evidence="wrote", floor=-0.5)
    assert veto("wrote") == Veto(evidence="wrote", floor=-1.0)
    assert requires("parsed", on="executes") == Requires(evidence="parsed", on="executes")
    assert needs_outcome(0.5) == NeedsOutcome(at_least=0.5)
    assert cap_process(0.4) == CapProcess(limit=0.4)


def test_without_gates_everything_is_paid():
    assert play().total == pytest.approx(1 + 0.1 + 0.5 - 0.2)
    assert play().reward_T.tolist() == pytest.approx([0.1, 0.1, -0.1 + 1.3])


# --- veto ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrote", [{0: True}, {2: 1}, {None: "DROP TABLE"}, {0: None, 1: True}, {0: False, 1: True}])
def test_a_veto_pays_the_floor_and_nothing_else(wrote: dict[int | None, Any]):
    score = play(veto("wrote", floor=-0.7), wrote=wrote)
    assert score.total == -0.7
    assert score.reward_T.tolist() == pytest.approx([0, 0, -0.7])
    assert score.outcome == 1.0
    assert [event.factor for event in score.ledger] == [0.0] * 6 + [1.0]
    penalty = score.ledger[-1]
    assert (penalty.name, penalty.kind, penalty.value, penalty.gate) == ("veto(wrote)", "penalty", -0.7, "")
    assert {event.gate for event in score.ledger[:-1]} == {"veto(wrote)"}


@pytest.mark.parametrize("wrote", [{}, {0: False}, {0: 0, 1: ""}])
def test_a_veto_without_the_act_changes_nothing(wrote: dict[int | None, Any]):
    assert play(veto("wrote"), wrote=wrote).ledger == play().ledger


def test_a_veto_that_could_not_be_measured_makes_the_episode_unusable():
    score = play(veto("wrote"), wrote={0: False, 1: None})
    assert not score.usable
    assert "'wrote'" in score.problem
    assert score.ledger == ()


@pytest.mark.parametrize("order", [(-1.0, -0.25), (-0.25, -1.0)])
def test_of_several_vetoes_the_lowest_floor_is_paid(order: tuple[float, float]):
    score = play(veto("wrote", order[0]), veto("lied", order[1]), wrote=True, lied=True)
    assert score.total == -1.0


@pytest.mark.parametrize("floor", [0.5, math.nan, -math.inf])
def test_a_floor_is_finite_and_never_a_prize(floor: float):
    with pytest.raises(ConfigError, match=r"veto\(wrote\)"):
        veto("wrote", floor=floor)


# --- requires --------------------------------------------------------------------------------------------------------


def test_requires_opens_turn_by_turn_and_missing_evidence_stays_closed():
    score = play(requires("ok", on="step"), ok={0: True, 1: False})
    assert factors(score, "step") == [1.0, 0.0, 0.0]
    assert closed_by(score, "step") == ["", "requires(ok, on=step)", "requires(ok, on=step)"]
    assert factors(score, "tidy") == [1.0]


@pytest.mark.parametrize(("ok", "factor"), [({None: True}, 1.0), ({0: True, 1: True, 2: True}, 0.0)])
def test_an_episode_payment_requires_evidence_about_the_episode(ok: dict[int | None, Any], factor: float):
    assert factors(play(requires("ok", on="tidy"), ok=ok), "tidy") == [factor]


@pytest.mark.parametrize(("ok", "usable"), [({0: None}, False), ({2: None}, False), ({None: None}, True)])
def test_what_a_payment_requires_and_could_not_be_measured_makes_the_episode_unusable(ok: Any, usable: bool):
    """Closed would count it as false. Where no payment hangs on it, it does not matter."""
    score = play(requires("ok", on="step"), ok=ok)
    assert score.usable is usable
    assert usable or f"turn {next(iter(ok))}, could not be measured" in score.problem
    assert play(requires("ok", on="step"), ok=ok, steps=(0, 0, 0)).usable


def test_evidence_recorded_twice_about_a_turn_must_be_true_both_times():
    rubric = Rubric(rewards=(WON, STEP), gates=(requires("ok", on="step"),))
    facts = [("won", True, None), ("step", 1, 0), ("step", 1, 1)]
    facts += [("ok", False, 0), ("ok", True, 0), ("ok", True, 1), ("ok", True, 1)]
    evidence = tuple(Evidence(name=name, value=value, turn=turn) for name, value, turn in facts)
    score = rubric.score(Record(task_id="t", n_turns=2, ending=Ending.FINISHED, evidence=evidence))
    assert factors(score, "step") == [0.0, 1.0]


@pytest.mark.parametrize("gate", [veto("ok"), requires("ok", on="step")])
def test_nan_is_not_true(gate: Gate):
    with pytest.raises(ValueError, match=rf"'ok' of task 't', turn 1, which '{re.escape(gate.name)}' reads, is nan"):
        play(gate, ok={1: math.nan})


# --- needs_outcome ---------------------------------------------------------------------------------------------------


def test_a_failed_outcome_closes_process_both_good_and_bad_but_no_penalty():
    score = play(needs_outcome(0.5), won=False)
    assert factors(score, "step") == [0.0, 0.0, 0.0]
    assert factors(score, "tidy") == [0.0]
    assert factors(score, "slow") == [1.0]
    assert score.total == -0.2


def test_the_threshold_itself_is_enough():
    assert play(needs_outcome(1.0)).ledger == play().ledger


# --- cap_process -----------------------------------------------------------------------------------------------------


def test_gains_and_losses_are_scaled_each_on_its_own():
    score = play(cap_process(0.35))
    assert factors(score, "step") == pytest.approx([0.5, 0.5, 1.0])  # gains 0.7 → 0.35, losses 0.1 fit
    assert factors(score, "tidy") == pytest.approx([0.5])
    assert closed_by(score, "step") == ["cap_process(0.35)"] * 2 + [""]
    assert factors(play(cap_process(0.05), steps=(-1, -1)), "step") == pytest.approx([0.25, 0.25])


def test_a_cap_counts_only_what_is_still_open():
    score = play(requires("never", on="tidy"), cap_process(0.2))
    assert factors(score, "step") == [1.0, 1.0, 1.0]
    assert closed_by(score, "tidy") == ["requires(never, on=tidy)"]


def test_a_cap_of_zero_pays_no_process():
    assert play(cap_process(0)).total == pytest.approx(0.8)


@pytest.mark.parametrize("limit", [-0.1, math.nan, math.inf])
def test_a_cap_is_a_finite_bound(limit: float):
    with pytest.raises(ConfigError, match="limit"):
        cap_process(limit)


# --- together --------------------------------------------------------------------------------------------------------


def test_gates_act_in_declared_order_and_the_first_to_close_is_remembered():
    gates = [requires("never", on="step"), needs_outcome(0.5)]
    assert closed_by(play(*gates, won=False), "step") == ["requires(never, on=step)"] * 3
    assert closed_by(play(*gates[::-1], won=False), "step") == ["needs_outcome(0.5)"] * 3


@given(st.permutations([veto("wrote", -0.3), requires("ok", on="step"), needs_outcome(0.5), cap_process(0.2)]))
def test_a_veto_is_exact_wherever_it_stands(gates: list[Gate]):
    score = play(*gates, wrote=True, ok={0: True})
    assert score.total == -0.3
    assert [event.paid for event in score.ledger if event.paid] == [-0.3]
