"""Gates that pay a share: soft (with its cautionary finding) and trust."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngate.errors import ConfigError, ShapeError, UnknownName
from turngate.rewards import (
    FromEvidence,
    Rubric,
    Soft,
    Trust,
    cap_process,
    trust_factors,
)
from turngate.types import Ending, Evidence, Record, Score

# --- soft (R3-RAG) ---------------------------------------------------------------------------------------------------

WON = FromEvidence(name="won", evidence="won", kind="outcome", weight=2.0, levels=(0, 1))
RELEVANCE = FromEvidence(name="relevance", evidence="relevance", per_turn=True, agg="sum", weight=1.6)
ERROR = FromEvidence(name="error", evidence="malformed", kind="penalty", weight=-0.9, per_turn=True, agg="last")
R3 = Rubric(
    rewards=(WON, RELEVANCE, ERROR),
    gates=(Soft(on="relevance", at_least=2.0, answered="answered", malformed="malformed"),),
)


def play(p: list[float | None], *, won: bool = False, rubric: Rubric = R3, **facts: Any) -> Score:
    evidence = [Evidence(name="relevance", value=value, turn=turn) for turn, value in enumerate(p)]
    evidence += [Evidence(name="won", value=won)]
    for name, value in facts.items():
        turn = len(p) - 1 if name == "malformed" else None
        evidence.append(Evidence(name=name, value=value, turn=turn))
    return rubric.score(Record(task_id="t", n_turns=len(p), ending=Ending.FINISHED, evidence=tuple(evidence)))


def test_the_four_endings_of_r3_rag():
    right = play([0.8, 0.5, None], won=True, answered=True)
    assert right.reward_T.tolist() == pytest.approx([1.28, 0.8, 2.0], abs=1e-5)
    assert play([0.8, 0.5, None], answered=True).reward_T.tolist() == pytest.approx([0.64, 0.4, 0.0], abs=1e-5)
    assert play([0.8, 0.5]).reward_T.tolist() == pytest.approx([0.72, 0.45], abs=1e-5)
    assert play([0.8, None], malformed=True).reward_T.tolist() == pytest.approx([0.8, -0.9], abs=1e-5)


def test_stalling_beats_a_wrong_answer_and_the_check_says_so():
    """The caution: in the published form an agent that is not sure is better off without an answer."""
    assert play([0.8, 0.5]).total > play([0.8, 0.5], answered=True).total
    gate = Soft(on="relevance", at_least=2.0, answered="answered")
    plain = RELEVANCE.model_copy(update={"agg": "mean"})  # bounded, so that nothing else is wrong with it
    rubric = Rubric(rewards=(WON, plain), gates=(gate,))
    safety = rubric.check()
    assert [safety[name].holds for name in ("I1", "I2", "I3")] == [True, False, True]
    answers, stalls = safety["I2"].better, safety["I2"].worse
    assert answers is not None
    assert stalls is not None
    assert rubric.score(answers.record).total == pytest.approx(0.8)
    assert rubric.score(stalls.record).total == pytest.approx(0.9)
    assert "[won=0, relevance=1, 'answered'] = 0.8 is paid less than [won=0, relevance=1, no 'answered'] = 0.9" in str(
        safety
    )
    assert str(safety).splitlines()[-1].startswith("  soft(relevance): [won=0,")
    ordered = gate.model_copy(update={"unanswered": 0.5})
    assert Rubric(rewards=(WON, plain), gates=(ordered,)).check().safe


def test_a_share_that_cannot_be_known_makes_the_episode_unusable_unless_it_was_right():
    lost = play([0.5], answered=None)
    assert not lost.usable
    assert "'answered' of soft(relevance)" in lost.problem
    assert play([0.5], won=True, answered=None).total == pytest.approx(2.8)


def test_a_share_of_one_leaves_no_mark_and_a_share_of_zero_closes():
    gate = Soft(on="relevance", at_least=2.0, answered="answered", wrong=0.0)
    rubric = Rubric(rewards=(WON, RELEVANCE), gates=(gate,))
    assert {event.gate for event in play([0.5], won=True, rubric=rubric).ledger} == {""}
    wrong = play([0.5], answered=True, rubric=rubric)
    assert (wrong.total, wrong.ledger[-1].gate) == (0.0, "soft(relevance)")
    account = rubric.account([wrong, play([0.5], rubric=rubric)])["soft(relevance)"]
    assert (account.n_events, account.n_closed, account.n_cut) == (2, 1, 1)
    assert account.paid == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("gate", "error", "match"),
    [
        (lambda: Soft(on="relevanc", at_least=2.0, answered="a"), UnknownName, "did you mean 'relevance'"),
        (lambda: Soft(on="won", at_least=2.0, answered="a"), ConfigError, "outcome"),
        (lambda: Soft(on="relevance", at_least=3.0, answered="a"), ConfigError, r"inside \[0, 2\]"),
        (lambda: Soft(on="relevance", at_least=2.0, answered="a", right=1.6), ValueError, "right"),
        (lambda: Soft(on="relevance", at_least=2.0, answered="a", wrong=-0.1), ValueError, "wrong"),
        (lambda: Trust(on="relevanc"), UnknownName, "did you mean 'relevance'"),
        (lambda: Trust(on="relevance"), ConfigError, "a sum"),
        (lambda: Trust(on="won"), ConfigError, "outcome"),
        (lambda: Trust(on="relevance", decay_steps=0.0), ConfigError, "decay_steps=0.0"),
    ],
)
def test_gates_that_cannot_work_are_refused(gate: Any, error: type[Exception], match: str):
    with pytest.raises(error, match=match):
        Rubric(rewards=(WON, RELEVANCE), gates=(gate(),))


# --- trust (Trust-GRPO) ----------------------------------------------------------------------------------------------


def test_the_worked_number_of_trust_grpo():
    """μ_c = 0.6, μ_w = 0.8: γ = e^−0.2; step 300 of T = 1500: another e^−0.2; 1 + 0.3·γ·e^−0.2·0.5."""
    factor_B = trust_factors([1.0, 1.0, 0.3], [0.5, 0.7, 0.8], [0, 0, 0], step=300)
    assert factor_B[0] / math.exp(-300 / 1500) == pytest.approx(0.818731, abs=1e-5)
    assert 1.0 + 0.3 * factor_B[0] * 0.5 == pytest.approx(1.100548, abs=1e-5)
    assert factor_B.tolist() == pytest.approx([math.exp(-0.4)] * 3)


@pytest.mark.parametrize(
    ("outcome", "score", "expected"),
    [
        ([1, 1, 0], [0.8, 0.8, 0.2], [1, 1, 0]),  # the judge agrees; below 0.2 nothing is paid
        ([1, 1, 1], [0.1, 0.5, 0.9], [0, 0, 0]),  # all right
        ([0, 0.1], [0.1, 0.5], [0, 0]),  # all wrong
        ([0.6, 0.95], [0.1, 0.5], [1, 1]),  # no wrong one: γ = 1
        ([0.3, 0.2], [0.1, 0.5], [1, 1]),  # no correct one: γ = 1
        ([1, 0.4, 0.4], [math.nan, 0.9, math.nan], [1, 1, 1]),  # no verdict on any correct one
        ([1, 0.4, 0.4], [0.4, 0.9, math.nan], [math.exp(-0.5)] * 3),
        ([1.0], [0.5], [0]),
        ([], [], []),
    ],
)
def test_degenerate_groups(outcome: list[float], score: list[float], expected: list[float]):
    assert trust_factors(outcome, score, [0] * len(score), step=0).tolist() == pytest.approx(expected)


def test_the_papers_equation_has_no_lower_gate():
    assert trust_factors([1, 0], [0.8, 0.2], [0, 0], step=0, open_from=0.0).tolist() == [1.0, 1.0]


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_factors_against_a_loop(seed: int):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 20))
    outcome, group = rng.choice([0, 0.15, 0.3, 0.5, 0.8, 1.0], size), rng.integers(0, 4, size)
    score = np.where(rng.random(size) < 0.2, np.nan, rng.random(size))
    step, decay = int(rng.integers(0, 3000)), 500.0
    expected = []
    for i in range(size):
        mates = [j for j in range(size) if group[j] == group[i]]
        right = [score[j] for j in mates if outcome[j] >= 0.5 and not np.isnan(score[j])]
        wrong = [score[j] for j in mates if outcome[j] < 0.5 and not np.isnan(score[j])]
        gamma = 1.0
        if right and wrong and np.mean(right) < np.mean(wrong):
            gamma = math.exp(np.mean(right) - np.mean(wrong))
        closed = all(outcome[j] >= 0.9 for j in mates) or all(outcome[j] <= 0.1 for j in mates) or outcome[i] < 0.2
        expected.append(0.0 if closed else gamma * math.exp(-step / decay))
    got = trust_factors(outcome, score, group, step=step, decay_steps=decay)
    assert got.tolist() == pytest.approx(expected)
    assert ((got >= 0) & (got <= 1)).all()


def test_arrays_that_do_not_fit_and_steps_before_the_first_are_refused():
    with pytest.raises(ShapeError, match=r"score_B \(1,\)"):
        trust_factors([1, 0], [0.5], [0, 0], step=0)
    with pytest.raises(ConfigError, match="step is -1"):
        trust_factors([1], [0.5], [0], step=-1)


OUTCOME = FromEvidence(name="won", evidence="won", kind="outcome")
THINKING = FromEvidence(name="thinking", evidence="thinking", weight=0.3)
TRUSTED = Rubric(rewards=(OUTCOME, THINKING), gates=(Trust(on="thinking", open_from=0.0), cap_process(0.25)))


def episode(won: float | None, thinking: float | None) -> Record:
    facts = (Evidence(name="won", value=won), Evidence(name="thinking", value=thinking))
    return Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts)


def test_a_group_is_paid_by_how_well_the_judge_agrees():
    group = [episode(1, 0.5), episode(1, 0.7), episode(0, 0.8), episode(None, 1.0), episode(0, None)]
    scores = TRUSTED.score_records(group, step=300)
    assert scores[0].total == pytest.approx(1.100548, abs=1e-5)
    assert scores[2].total == pytest.approx(0.3 * math.exp(-0.4) * 0.8)
    assert [score.usable for score in scores] == [True, True, True, False, True]
    assert scores[4].total == 0.0
    assert scores[0].ledger[1].gate == "trust(thinking)"
    again = TRUSTED.score_records(group, step=300)
    assert [score.ledger for score in again] == [score.ledger for score in scores]
    later = TRUSTED.score_records(group, step=3000)
    assert later[0].total == pytest.approx(1 + 0.3 * 0.5 * math.exp(-0.2 - 2.0))


def test_alone_there_is_nothing_to_agree_with():
    assert TRUSTED.score(episode(1, 0.5)).total == 1.0
    account = TRUSTED.account([TRUSTED.score(episode(1, 0.5))])["trust(thinking)"]
    assert (account.raw, account.paid, account.open_rate) == (pytest.approx(0.15), 0.0, 0.0)


def test_without_gates_that_compare_siblings_a_group_is_scored_record_by_record():
    records = [episode(1, 0.5), episode(0, 0.9), episode(None, 0.1)]
    rubric = Rubric(rewards=(OUTCOME, THINKING), gates=(cap_process(0.1),))
    alone = [rubric.score(record) for record in records]
    together = rubric.score_records(records, step=7)
    assert [score.ledger for score in together] == [score.ledger for score in alone]
    assert [score.problem for score in together] == [score.problem for score in alone]


def test_shares_survive_json():
    gates = (
        Soft(on="relevance", at_least=2.0, answered="a", malformed="m", wrong=0.25),
        Trust(on="mean", decay_steps=500),
    )
    mean = FromEvidence(name="mean", evidence="mean", per_turn=True)
    rubric = Rubric(rewards=(WON, RELEVANCE, mean), gates=gates)
    twin = Rubric.model_validate_json(rubric.model_dump_json())
    assert twin == rubric
    assert [type(gate) for gate in twin.gates] == [Soft, Trust]
    assert twin.gates[0].wrong == 0.25  # type: ignore[attr-defined]
