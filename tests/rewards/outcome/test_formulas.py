"""Every formula as a part of a rubric: recorded facts in, the published number out."""

import json
import math
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.every import for_every
from turngate.errors import ConfigError
from turngate.rewards import FromEvidence, Rubric
from turngate.rewards.outcome.answers import ExactMatch, ListOverlap, NumericMatch, TokenF1
from turngate.rewards.outcome.calibration import AnswerOrAbstain, BrierScore, Rlcr
from turngate.rewards.outcome.calls import FtrlAnswer, FtrlCalls, ToolRL
from turngate.rewards.outcome.code import LanserDiagnostics, Localisation, PatchSimilarity, ReproducedFirst
from turngate.rewards.outcome.formula import Formula
from turngate.rewards.outcome.gui import CandidateClicks, ConfidentClicks, StepVerdicts
from turngate.rewards.outcome.search import CitedAnswer, RetrievalRelevance, StepSearch, StepSearchAnswer
from turngate.rewards.outcome.sql import ExecutionMatch, NgramSimilarity, ResultF1, SchemaLinking, TagFormat
from turngate.rewards.parts import Kind
from turngate.types import Ending, Evidence, Record

CALL = {"name": "search", "arguments": {"q": "rome", "k": 3}}
NEAR = {"name": "search", "arguments": {"q": "rome", "k": 4}}
SPARE = {"name": "wait", "arguments": {}}
DIFF = "@@ -1 +1 @@\n-x = 1\n+x = 2\n"
GOLD = "SELECT a FROM t"


def facts(**recorded):
    """A list of measurements of the whole episode, or {turn: value}."""
    return tuple(
        Evidence(name=name, value=value, turn=turn, by="verifier")
        for name, found in recorded.items()
        for turn, value in (found.items() if isinstance(found, dict) and 0 in found else [(None, found)])
    )


def score(part, **recorded):
    """The episode of four turns, paid for by a rubric that has been through JSON."""
    won = FromEvidence(name="won", evidence="won", kind="outcome")
    rewards = (part,) if part.kind == "outcome" else (won, part)
    rubric = Rubric.model_validate(json.loads(Rubric(rewards=rewards).model_dump_json()))
    assert rubric.rewards[-1] == part
    evidence = (*facts(**recorded), Evidence(name="won", value=0.0))
    return rubric.score(Record(task_id="t/1", n_turns=4, ending=Ending.FINISHED, evidence=evidence))


def earned(part, **recorded):
    """Verdicts by turn."""
    return {event.turn: event.value for event in score(part, **recorded).ledger if event.name == part.name}


CASES = [
    (ExactMatch(name="x"), {"answer": "The Rome!", "gold": ["Roma", "rome"]}, 1.0),
    (ExactMatch(name="x"), {"answer": None, "gold": "rome"}, 0.0),
    (ExactMatch(name="x", faithful=True), {"answer": "the", "gold": "A"}, 1.0),
    (TokenF1(name="x"), {"answer": "old city of rome", "gold": "rome city"}, 2 * 2 / 6),
    (NumericMatch(name="x"), {"answer": "12.5%", "gold": 0.125}, 1.0),
    (NumericMatch(name="x", percent="ignore"), {"answer": "12.5%", "gold": "0.125"}, 0.0),
    (ListOverlap(name="x"), {"items": ["red", "green"], "gold_items": ["red", ["blue", "azure"]]}, 0.5),
    (ListOverlap(name="x", measure="recall"), {"items": ["red", "green", "azure"], "gold_items": ["red"]}, 1.0),
    (ListOverlap(name="x", measure="exact", ordered=True), {"items": ["b2", "a1"], "gold_items": ["a1", "b2"]}, 0.0),
    (ListOverlap(name="x", measure="precision", repeats=True), {"items": ["a1", "a1"], "gold_items": ["a1"]}, 0.5),
    (Rlcr(name="x"), {"correct": True, "stated_confidence": 0.8}, 0.96),
    (Rlcr(name="x"), {"correct": False, "stated_confidence": 0.8}, -0.64),
    (Rlcr(name="x"), {"correct": False, "stated_confidence": False}, -1.0),
    (Rlcr(name="x"), {"correct": False, "stated_confidence": 7.0}, -1.0),
    (Rlcr(name="x", faithful=True), {"correct": False, "stated_confidence": False}, 0.0),
    (BrierScore(name="x"), {"correct": False, "stated_confidence": 0.8}, 0.36),
    (BrierScore(name="x"), {"correct": False, "stated_confidence": False}, 0.0),
    (AnswerOrAbstain(name="x"), {"answer": "I don't know", "gold": "rome"}, 0.0),
    (AnswerOrAbstain(name="x", threshold=0.75, low=-3.0), {"answer": "Oslo", "gold": "rome"}, -3.0),
    (ToolRL(name="x", faithful=True), {"calls": [NEAR], "gold_calls": [CALL]}, 2.5),
    (ToolRL(name="x", faithful=True), {"calls": [CALL, SPARE], "gold_calls": [CALL], "well_formed": False}, 2.25),
    (ToolRL(name="x"), {"calls": [CALL, SPARE], "gold_calls": [CALL], "malformed": 0}, 1 + 6 * 0.5 - 3),
    (FtrlAnswer(name="x"), {"answer": "rome", "gold": "rome", "unsolved": 1}, 0.5),
    (FtrlAnswer(name="x"), {"answer": "rome", "gold": "rome", "unsolved": 1, "stray_tags": True}, -0.3),
    (FtrlAnswer(name="x"), {"answer": None, "gold": "rome", "unsolved": 1}, -0.5),
    (StepSearchAnswer(name="x"), {"answer": "rome", "gold": "rome", "key_score": 0.5}, 1.309),
    (StepSearchAnswer(name="x"), {"answer": "a", "gold": "b", "key_score": 1.0, "answer_well_formed": False}, -1.0),
    (CitedAnswer(name="x", beta=2.0), {"correct": 1.0, "cited": [3, 4], "gold_chunks": [3]}, 1.833333),
    (CitedAnswer(name="x", beta=2.0), {"correct": 0.0, "cited": [3, 4], "gold_chunks": [3]}, 0.083333),
    (SchemaLinking(name="x"), {"answer": "SELECT a, b FROM t", "gold_query": GOLD}, 2 / 3),
    (SchemaLinking(name="x", faithful=True), {"answer": "SELECT a, b FROM t", "gold_query": GOLD}, 1.0),
    (SchemaLinking(name="x"), {"answer": "SELEKT", "gold_query": GOLD}, 0.0),
    (NgramSimilarity(name="x"), {"answer": "SELECT b FROM t", "gold_query": GOLD}, 0.2),
    (ExecutionMatch(name="x", faithful=True), {"rows": [[2], [1]], "gold_rows": [[1], [1], [2]]}, 1.0),
    (ExecutionMatch(name="x"), {"rows": [[2], [1]], "gold_rows": [[1], [1], [2]]}, 0.0),
    (ExecutionMatch(name="x"), {"rows": [[2], [1]], "gold_rows": [[1], [2]], "ordered": True}, 0.0),
    (ResultF1(name="x"), {"rows": [["a"], ["x"]], "gold_rows": [["a"], ["b"]]}, 0.5),
    (PatchSimilarity(name="x", faithful=True), {"patch": {"m": "abc"}, "gold_patch": {"m": "abd"}}, 0.666667),
    (PatchSimilarity(name="x"), {"patch": False, "gold_patch": {"m": DIFF}}, -1.0),
    (PatchSimilarity(name="x"), {"patch": {}, "gold_patch": {"m": DIFF}}, 0.0),
    (Localisation(name="x"), {"files_opened": ["a", "c"], "gold_files": ["a", "b"]}, 1 / 3),
    (ReproducedFirst(name="x"), {"ran_tests": {0: False, 1: True}, "edit_applied": {2: True, 0: False}}, 1.0),
    (ReproducedFirst(name="x"), {"ran_tests": {0: False, 3: True}, "edit_applied": {0: False, 1: True}}, 0.0),
]
PER_TURN = [
    (FtrlCalls(name="x", faithful=True, high=2.0), {"n_calls": {0: 3, 1: 1, 2: 0}, "n_solved": {0: 2, 1: 2, 2: 0}},
     {0: 1.0, 1: 2.0}),
    (FtrlCalls(name="x"), {"n_calls": {0: 2}, "n_solved": {0: 1}, "solvable": {0: 2}}, {0: 0.5}),
    (StepSearch(name="x"), {"retrieved": {0: ["cats purr"], 1: ["cats purr", "dogs bark"], 3: []},
                            "gold_documents": ["cats purr", "dogs bark"]}, {0: 0.5, 1: 0.25, 3: 0.0}),
    (StepSearch(name="x", faithful=True, low=-1.0), {"retrieved": {0: ["cats purr"], 1: ["cats purr"]},
                                                     "gold_documents": ["cats purr"]}, {0: 1.0, 1: -1.0}),
    (RetrievalRelevance(name="x"), {"n_documents": {0: 3, 1: 0, 2: 3}, "relevance": {0: 0.7, 1: 0.9}},
     {0: 0.7, 1: 0.0}),
    (RetrievalRelevance(name="x", faithful=True),
     {"n_documents": {0: 0}, "relevance": {0: 0.9}, "weighted": {0: 0.6}}, {0: 0.6}),
    (TagFormat(name="x"), {"reply": {0: "<reasoning>r</reasoning><answer>a</answer>", 2: "a"}}, {0: 1.0, 2: 0.0}),
    (LanserDiagnostics(name="x", high=2.0, faithful=True), {"diagnostics_delta": {0: -3.0, 1: -1.0, 2: 0.0},
     "safe": {0: True, 1: True, 2: False}, "tool_confidence": {0: 0.94, 1: 0.72, 2: 0.62}},
     {0: 1.894, 1: 0.872, 2: -0.038}),
    (LanserDiagnostics(name="x"), {"diagnostics_delta": {0: None, 1: 9.0, 2: -1.0}}, {1: -1.0, 2: 0.5}),
    (CandidateClicks(name="x"), {
        "candidates": {0: [[1, 1], [5, 9], [3, 4], [8, 2]], 1: [[1, 1], [5, 9], [3, 4], [8, 2]], 2: [[1, 1]],
                       3: [[1, 1], [2, 2], [5, 5]], 4: [[7, 7]]},
        "candidate_hit": {0: 2, 1: 0, 2: 1, 3: 1}}, {0: 0.353553, 1: -0.25, 2: 1.0, 3: -1.0}),
    (ConfidentClicks(name="x"), {
        "click_confidence": {0: 0.7, 1: 0.0, 2: 0.9, 3: False},
        "click_hit": {0: True, 1: False, 2: False, 3: True},
        "click_offset": {0: [5 / 80, -4 / 40], 1: [0.9, 0.1], 2: [0.9, 0.1], 3: [0, 0]}},
     {0: 0.962086, 1: 0.0, 2: -0.81, 3: 0.0}),
    (StepVerdicts(name="x"), {"step_verdict": {0: True, 1: False, 2: None}}, {0: 1.0, 1: 0.0}),
    (StepVerdicts(name="x", signed=True, low=-1.0), {"step_verdict": {0: True, 1: False}}, {0: 1.0, 1: -1.0}),
]  # fmt: skip


@for_every("part, recorded, expected", CASES)
def test_an_episode_earns_the_published_number(part, recorded, expected):
    assert earned(part, **recorded) == {None: pytest.approx(expected, abs=1e-5)}


@for_every("part, recorded, expected", PER_TURN)
def test_a_turn_earns_the_published_number(part, recorded, expected):
    assert earned(part, **recorded) == pytest.approx(expected, abs=1e-5)


@for_every("part", [part for part, *_ in (*CASES, *PER_TURN)])
def test_what_was_not_measured_is_missing_and_no_zero(part):
    result = score(part)
    assert [event.name for event in result.ledger if event.name == "x"] == []
    assert result.usable == (part.kind != "outcome")


FORMULAS = [part for part, *_ in (*CASES, *PER_TURN) if part.type != "reproduced_first"]


@for_every("part", FORMULAS)
def test_a_verdict_that_the_environment_recorded_counts_instead(part):
    """So that gold answers can stay with the verifier; a part whose verdict does not say what success is needs that."""
    recorded = {part.type: {0: part.high} if part.per_turn else part.high, "answer": "x", "gold": "y"}
    decides = {name: True for name in [getattr(part, "decided_by", "")] if name}
    assert list(earned(part, **recorded, **decides).values()) == [part.high]
    if decides:
        assert not score(part, **recorded).usable or part.kind != "outcome"


def test_null_is_not_measured_and_the_last_measurement_counts():
    assert not score(ExactMatch(name="x"), answer="rome", gold=None).usable
    record = Record(
        task_id="t",
        n_turns=4,
        ending=Ending.FINISHED,
        evidence=(*facts(answer="oslo", gold="rome"), Evidence(name="answer", value="rome", turn=2)),
    )
    assert Rubric(rewards=(ExactMatch(name="x"),)).score(record).outcome == 1.0


@for_every(
    "part, recorded, words",
    [
        (ExactMatch(name="x"), {"answer": 5, "gold": "5"}, "cannot read evidence 'answer', 5: .*string"),
        (ToolRL(name="x"), {"calls": [{"name": "a"}], "gold_calls": []}, "cannot read evidence 'calls'"),
        (FtrlCalls(name="x"), {"n_calls": {0: "many"}, "n_solved": {0: 1}}, "turn 0: cannot read evidence 'n_calls'"),
        (StepSearch(name="x"), {"retrieved": {0: "cats"}, "gold_documents": [1]}, "documents are a list of texts"),
        (StepSearch(name="x"), {"retrieved": {0: "cats"}, "gold_documents": ["a"]}, "documents are a list of texts"),
        (Rlcr(name="x"), {"correct": True, "stated_confidence": math.nan}, "evidence 'stated_confidence' .*is nan"),
    ],
)
def test_evidence_of_another_form_is_named(part, recorded, words):
    with pytest.raises(ValueError, match=words):
        score(part, **recorded)


@for_every(
    "make",
    [
        lambda: FtrlCalls(name="x", faithful=True),
        lambda: StepSearch(name="x", faithful=True),
        lambda: StepVerdicts(name="x", signed=True),
        lambda: StepSearchAnswer(name="x", key_weight=2.0),
        lambda: AnswerOrAbstain(name="x", threshold=0.75),
    ],
)
def test_settings_whose_verdicts_would_lie_outside_the_range_are_refused(make):
    with pytest.raises(ConfigError, match="set low"):
        make()


def test_a_yes_or_no_counts_as_one_for_the_safety_of_a_rubric():
    style = FromEvidence(name="style", evidence="style", weight=0.9)
    assert Rubric(rewards=(ExactMatch(name="x"), style)).check().safe
    assert not Rubric(rewards=(TokenF1(name="x"), style)).check().safe


# --- the sum of Reasoning-SQL ----------------------------------------------------------------------------------------


def reasoning_sql(execution):
    return Rubric(
        rewards=(
            ExecutionMatch(name="execution", weight=execution),
            FromEvidence(name="syntax", evidence="executes"),
            SchemaLinking(name="schema"),
            NgramSimilarity(name="ngram"),
            FromEvidence(name="format", evidence="marks"),
        )
    )


@for_every(
    "execution, query, rows, marks, total",
    [(2.0, "SELECT b FROM t", [], 0.5, 1 + 1 / 3 + 0.2 + 0.5), (3.0, GOLD, [[1]], 0.5, 6.5), (2.0, GOLD, [], 0.5, 3.5)],
)
def test_reasoning_sql_is_a_sum_of_parts(execution, query, rows, marks, total):
    recorded = facts(answer=query, gold_query=GOLD, rows=rows, gold_rows=[[1]], executes=True, marks=marks)
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=recorded)
    assert reasoning_sql(execution).score(record).total == pytest.approx(total, abs=1e-5)


def test_the_check_says_that_the_published_sum_lets_wrong_queries_overtake():
    safety = reasoning_sql(2.0).check()
    assert not safety.safe
    assert not safety["I1"].holds


# --- a formula of one's own ------------------------------------------------------------------------------------------


class Closeness(Formula):
    """How near a guess came."""

    type: Literal["test_closeness"] = "test_closeness"
    kind: Kind = "outcome"
    yes_or_no: ClassVar[bool] = False
    scale: float = 10.0

    def grade(self, guess: float, target: float | None, bonus: float = 0.0) -> float | None:
        """1 at the target, 0 from ``scale`` on."""
        return None if target is None else min(1.0, max(0.0, 1 - abs(guess - target) / self.scale) + bonus)


@given(st.floats(-50, 50), st.floats(-50, 50), st.none() | st.floats(0, 0.5))
def test_a_formula_of_ones_own_is_one_method(guess, target, bonus):
    part = Rubric.model_validate({"rewards": [{"type": "test_closeness", "name": "x", "scale": 20}]}).rewards[0]
    assert part.reads == ("test_closeness", "guess", "target", "bonus")
    more = {} if bonus is None else {"bonus": bonus}
    expected = min(1.0, max(0.0, 1 - abs(guess - target) / 20) + (bonus or 0.0))
    assert earned(part, guess=guess, target=target, **more) == {None: pytest.approx(expected)}
    assert not score(part, guess=guess, target=None).usable
