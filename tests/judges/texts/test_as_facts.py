"""Verdicts as evidence: what is missing is None, never zero and never positive."""

import numpy as np
import pytest

from turngate.errors import ConfigError, ShapeError
from turngate.judges.texts import (
    Criterion,
    Critique,
    Fault,
    FaultKind,
    JudgeId,
    PairVerdict,
    Quote,
    Rule,
    Standings,
    Verdict,
    critique_facts,
    panel_facts,
    rubric_facts,
    rubric_score,
    tournament_facts,
    verdict_facts,
    win_rate_facts,
)
from turngate.rewards import FromEvidence, Requires, Rubric
from turngate.types import Ending, Record

JUDGE = JudgeId(name="tiny", version="3")
YES = Verdict(passed=True, score=0.9, quotes=(Quote(turn=1, text="3 rows found"),))
NO = Verdict(passed=False, score=0.2)


def test_a_verdict_is_a_plain_value_and_a_record_of_who_said_it():
    plain, record = verdict_facts("helpful", YES, JUDGE)
    assert (plain.name, plain.value, plain.by, plain.turn) == ("helpful", True, "judge", None)
    assert (record.name, record.by) == ("helpful_judge", "judge")
    assert record.value == {
        "judge": "tiny",
        "version": "3",
        "passed": True,
        "score": 0.9,
        "quotes": [{"turn": 1, "text": "3 rows found"}],
    }
    assert verdict_facts("helpful", NO, JUDGE, use="score", turn=2)[0].value == 0.2


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("use", ["passed", "score"])
def test_every_fault_is_missing(kind, use):
    plain, record = verdict_facts("helpful", Fault(kind=kind, detail="why"), JUDGE, use=use)
    assert plain.value is None
    assert record.value == {"judge": "tiny", "version": "3", "missing": str(kind), "detail": "why"}


def test_a_rule_is_measured_and_not_by_the_judge():
    plain, record = verdict_facts("helpful", Rule.NO_ANSWER, JUDGE)
    assert (plain.value, plain.by, record.value["rule"]) == (False, "verifier", "no_answer")
    assert verdict_facts("helpful", Rule.NO_ANSWER, JUDGE, use="score")[0].value == 0.0


RUBRIC = Rubric(
    rewards=(
        FromEvidence(name="correct", evidence="correct", kind="outcome"),
        FromEvidence(name="style", evidence="style", weight=0.2),
    ),
    gates=(Requires(evidence="safe", on="style"),),
)


def score(*facts):
    return RUBRIC.score(Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts))


def test_a_rubric_reads_them_and_a_no_closes_a_gate():
    style = verdict_facts("style", YES, JUDGE, use="score")
    correct, safe = verdict_facts("correct", YES, JUDGE), verdict_facts("safe", YES, JUDGE)
    assert score(*correct, *style, *safe).total == pytest.approx(1 + 0.2 * 0.9)
    assert score(*correct, *style, *verdict_facts("safe", NO, JUDGE)).total == pytest.approx(1.0)


def test_a_missing_outcome_is_unusable_and_not_a_failure():
    found = score(*verdict_facts("correct", Fault(kind=FaultKind.TIMEOUT), JUDGE), *verdict_facts("safe", YES, JUDGE))
    assert (found.usable, found.outcome) == (False, None)


def critique(*bad):
    return Critique(bad_T=bad)


def test_votes_on_steps():
    """Three critiques that call {2}, {2, 3}, {1, 2} wrong: majority {2}, intersection {2}, shares 1/3, 1, 1/3."""
    critiques = [critique(False, True, False), critique(False, True, True), critique(True, True, False)]
    values = {
        mode: [fact.value for fact in critique_facts("ok", critiques, JUDGE, n_turns=3, mode=mode)[:-1]]
        for mode in ("majority", "intersection", "average")
    }
    assert values["majority"] == values["intersection"] == [1.0, 0.0, 1.0]
    assert values["average"] == pytest.approx([2 / 3, 0, 2 / 3])


def test_steps_on_which_nothing_is_said_are_missing():
    lost = Fault(kind=FaultKind.MALFORMED)
    facts = critique_facts("ok", [critique(False, None), lost], JUDGE, n_turns=2)
    assert [(fact.value, fact.turn, fact.by) for fact in facts[:-1]] == [(1.0, 0, "judge"), (None, 1, "judge")]
    assert facts[-1].value["missing"] == ["malformed"]
    assert [fact.value for fact in critique_facts("ok", [lost], JUDGE, n_turns=2)[:-1]] == [None, None]
    assert [fact.value for fact in critique_facts("ok", [], JUDGE, n_turns=1)[:-1]] == [None]


def test_a_tournament_gives_each_its_reward_and_a_void_one_nothing():
    def standings(reward, problem=""):
        reward_B = np.array(reward)
        return Standings(reward_B=reward_B, n_matches=2, n_missing=0, problem=problem)

    assert [facts[0].value for facts in tournament_facts("rank", standings([1.0, 0.0]), JUDGE)] == [1.0, 0.0]
    void = tournament_facts("rank", standings([np.nan, np.nan], "void"), JUDGE)
    assert [facts[0].value for facts in void] == [None, None]
    assert void[0][1].value["problem"] == "void"


OTHER = JudgeId(name="other", version="1")


def match(first, second):
    return PairVerdict(first=first, second=second, consistent=True)


def test_win_rates_are_the_shares_of_the_others_that_one_is_better_than():
    matches = {(0, 1): match(14, 5), (0, 2): match(9, 3), (0, 3): match(2, 1), (1, 2): match(8, 0)}
    matches |= {(1, 3): match(10, 10), (2, 3): match(3, 4)}
    facts = win_rate_facts("better", 4, matches, JUDGE)
    assert [(row[0].name, row[0].by) for row in facts] == [("better", "judge")] * 4
    assert [row[0].value for row in facts] == pytest.approx([1, 0.5, 0, 0.5])
    assert facts[1][1].value == {"judge": "tiny", "version": "3", "won": [0.0, None, 1.0, 0.5], "missing": []}


def test_whoever_has_a_match_without_verdict_has_no_rate_and_nobody_is_lifted():
    matches = {(0, 1): Fault(kind=FaultKind.TIMEOUT), (0, 2): match(9, 3), (1, 2): match(1, 5)}
    facts = win_rate_facts("better", 3, matches, JUDGE)
    assert [row[0].value for row in facts] == [None, None, 0.5]
    assert facts[0][1].value["missing"] == ["timeout"]
    assert win_rate_facts("better", 1, {}, JUDGE)[0][0].value is None


@pytest.mark.parametrize(
    ("answers", "value"),
    [
        ([YES, YES], True),
        ([YES, NO], False),
        ([YES, Fault(kind=FaultKind.REFUSAL)], None),
        ([NO, Fault(kind=FaultKind.REFUSAL)], False),
        ([YES, Rule.TOO_SHORT], False),
    ],
)
def test_a_panel_is_recorded_judge_by_judge(answers, value):
    plain, record = panel_facts("safe", answers, [JUDGE, OTHER])
    assert (plain.value, plain.by) == (value, "judge")
    assert [(one["judge"], one["version"]) for one in record.value] == [("tiny", "3"), ("other", "1")]


def test_a_panel_is_of_different_judges():
    with pytest.raises(ConfigError, match="asks one judge twice"):
        panel_facts("safe", [YES, YES], [JUDGE, JudgeId(name="tiny", version="4")])
    with pytest.raises(ShapeError, match="1 answers but 2 judges"):
        panel_facts("safe", [YES], [JUDGE, OTHER])


def test_a_rubric_is_its_score_and_each_of_its_criteria():
    facts = rubric_facts("quality", [YES, NO], criteria(3, 1), JUDGE)
    plain = {fact.name: fact.value for fact in facts if not fact.name.endswith("_judge")}
    assert plain == {"quality": pytest.approx(0.75), "quality_c0": True, "quality_c1": False}
    assert sum(fact.name.endswith("_judge") for fact in facts) == 2
    missing = rubric_facts("quality", [YES, Fault(kind=FaultKind.VOID)], criteria(3, 1), JUDGE)
    assert [fact.value for fact in missing if fact.name in ("quality", "quality_c1")] == [None, None]


def criteria(*weights):
    return [Criterion(name=f"c{n}", text="", weight=weight) for n, weight in enumerate(weights)]


@pytest.mark.parametrize(
    ("weights", "verdicts", "expected"),
    [
        ([3, 2, 1], [YES, NO, YES], 0.666667),
        ([3, 2, -2], [YES, YES, YES], 0.6),
        ([1, -5], [YES, YES], 0.0),
        ([1, 1], [YES, Rule.TOO_SHORT], 0.5),
    ],
)
def test_rubric_items(weights, verdicts, expected):
    assert rubric_score(verdicts, criteria(*weights)) == pytest.approx(expected, abs=1e-5)


def test_a_missing_rubric_item_is_missing():
    assert rubric_score([YES, Fault(kind=FaultKind.REFUSAL)], criteria(1, -1)) is None
