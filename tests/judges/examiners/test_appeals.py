"""Appeals: whose verdicts go to the judge, what comes of it for outcome and rates, and what reaches the score."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from tests.helpers import examine_kit, models
from turngate.judges.asking.judge import JudgeReplies
from turngate.judges.asking.settings import Tally
from turngate.judges.examiners.appeals import Appeals
from turngate.judges.examiners.base import Examiner
from turngate.judges.texts import Criterion, Fault, FaultKind, JudgeId, Rule, Verdict
from turngate.rewards import FromEvidence, Rubric
from turngate.trainer.batch.table import tabulate
from turngate.trainer.credit.grpo import grpo
from turngate.types import Ending


class Truth:
    """A judge that knows who is right, by id: yes, no, "rule" (nothing was answered) or None (out of order)."""

    id = JudgeId(name="truth", version="1")

    def __init__(self, right):
        self.right, self.asked = right, []

    def __call__(self, part):
        return self

    async def pointwise(self, items, criterion):
        self.asked.append(([item.id for item in items], criterion))
        self.items = items
        said = {
            True: Verdict(passed=True, score=1.0),
            False: Verdict(passed=False, score=0.0),
            "rule": Rule.NO_ANSWER,
            None: Fault(kind=FaultKind.TIMEOUT),
        }
        return JudgeReplies(answers=tuple(said[self.right[item.id]] for item in items), tally=Tally())


def judged(verdicts, name="task"):
    episodes = examine_kit.episodes(*[1] * len(verdicts), name=name)
    return examine_kit.told(examine_kit.group(episodes, name=name, gold="42"), correct=verdicts)


def appeals(**settings):
    return Appeals(**{"evidence": "correct", "judge": {"type": "policy"}, "share": 1.0} | settings)


def find(examiner, groups, judge, at=None):
    context = replace(at or examine_kit.context(answer=lambda one: f"answer of {one.id}"), judge=judge)
    return examine_kit.examine(examiner, groups, context)


def column(facts, name):
    return [found.get(None, "none") for of_group in facts for found in examine_kit.values(of_group, name)]


VERDICTS = [True, True, False, False, False, False]
RIGHT = {"task0": True, "task1": False, "task2": True, "task3": False, "task4": "rule", "task5": None}


# --- what is asked ---------------------------------------------------------------------------------------------------


def test_all_rejections_go_to_the_judge_together():
    judge = Truth(RIGHT | {"other0": True})
    criterion = {"text": "The number is right.", "name": "number"}
    facts = find(appeals(criterion=criterion, reference="gold"), [judged(VERDICTS), judged([0], name="other")], judge)
    assert judge.asked == [
        (["task2", "task3", "task4", "task5", "other0"], Criterion(name="number", text="The number is right."))
    ]
    assert [(item.answer, item.reference) for item in judge.items[:1]] == [("answer of task2", "42")]
    assert column(facts, "appeal") == ["none", "none", True, False, False, None, True]
    record = [value for value in column(facts, "appeal_judge") if value != "none"]
    assert record[0]["judge"] == "truth"
    assert record[2]["rule"] == "no_answer"
    assert record[3]["missing"] == "timeout"


def test_a_share_of_rejections_and_of_acceptances_is_drawn():
    right = {f"task{n}": True for n in range(40)}
    drawn = []
    for seed in (1, 1, 2):
        judge = Truth(right)
        at = examine_kit.context(seed=seed)
        find(appeals(share=0.25, audit=0.1), [judged([False] * 20 + [True] * 20)], judge, at)
        ((asked, _),) = judge.asked
        numbers = [int(one.removeprefix("task")) for one in asked]
        assert [sum(n < 20 for n in numbers), sum(n >= 20 for n in numbers)] == [5, 2]
        drawn.append(asked)
    assert drawn[0] == drawn[1] != drawn[2]


def test_nobody_is_asked_where_nothing_was_rejected():
    judge = Truth({})
    facts = find(appeals(), [judged([True, True, None])], judge)
    assert not judge.asked
    assert column(facts, "appeal_outcome") == [1.0, 1.0, "none"]


# --- what comes of it ------------------------------------------------------------------------------------------------


def test_settled_outcomes():
    """Three of the four rejections are answered, one of them overturned."""
    assert column(find(appeals(), [judged(VERDICTS)], Truth(RIGHT)), "appeal_outcome") == [1, 1, 1, 0, 0, 0]
    half = find(appeals(overturned=0.5), [judged(VERDICTS)], Truth(RIGHT))
    assert column(half, "appeal_outcome") == [1, 1, 0.5, 0, 0, 0]
    audited = find(appeals(audit=1.0), [judged(VERDICTS)], Truth(RIGHT))
    assert column(audited, "appeal_outcome") == [1, 0, 1, 0, 0, 0]


def test_rates_and_what_they_correct():
    """Of four rejections a third is right, of two acceptances one: ρ1 = 4/3 of 7/3, ρ0 = 1 of 1 + 8/3."""
    at = examine_kit.context()
    facts = find(appeals(audit=1.0, correct="backward"), [judged(VERDICTS)], Truth(RIGHT), at)
    rho0, rho1 = 1 / (1 + 8 / 3), (4 / 3) / (7 / 3)
    shrunk = [rate * 0.9 / (rho0 + rho1) if rho0 + rho1 > 0.9 else rate for rate in (rho0, rho1)]
    assert at.memory == {"": pytest.approx(shrunk)}
    assert column(facts, "appeal_rates")[0] == pytest.approx(dict(zip(RATES, shrunk, strict=True)))
    right, wrong = ((verdict - shrunk[0]) / (1 - sum(shrunk)) for verdict in (1, 0))
    assert column(facts, "appeal_outcome") == pytest.approx([right] * 2 + [wrong] * 4)
    ahead = find(appeals(audit=1.0, correct="forward"), [judged(VERDICTS)], Truth(RIGHT))
    assert column(ahead, "appeal_outcome") == pytest.approx([shrunk[1]] * 2 + [shrunk[1] - 1] * 4)


RATES = ("false_positive", "false_negative")


def test_published_numbers():
    """ρ0 = .1, ρ1 = .2: R̂(1) = 1.285714, R̂(0) = −.142857; forward weights .2 and −.8."""
    settings = {"decay": 1.0, "share": 0.1}
    for correct, expected in (("backward", [1.285714, -0.142857]), ("forward", [0.2, -0.8])):
        at = examine_kit.context(memory={"": [0.1, 0.2]})
        facts = find(appeals(correct=correct, **settings), [judged([True, False])], Truth({"task1": False}), at)
        assert column(facts, "appeal_outcome") == pytest.approx(expected, abs=1e-6)
        assert at.memory == {"": [0.1, 0.2]}


def test_rates_are_remembered_of_the_run_or_of_each_task():
    groups = [judged([1, 0]), judged([1, 0], name="other")]
    right = {"task1": True, "other1": False}
    at = examine_kit.context()
    find(appeals(rates="task"), groups, Truth(right), at)
    assert at.memory == {"other": [0.0, 0.0], "task": [None, 0.5]}  # of "task" no wrong answer was seen
    find(appeals(rates="task", decay=0.9), groups[:1], Truth({"task1": False}), at)
    assert at.memory == {"other": [0.0, 0.0], "task": [0.0, pytest.approx(0.45)]}
    at = examine_kit.context()
    find(appeals(), groups, Truth(right), at)
    assert at.memory == {"": [0.0, pytest.approx(1 / 3)]}  # one of three right answers was rejected


def test_a_judge_that_says_nothing_changes_nothing():
    at = examine_kit.context()
    facts = find(appeals(audit=1.0), [judged(VERDICTS)], Truth(dict.fromkeys(RIGHT)), at)
    assert column(facts, "appeal_outcome") == [1, 1, 0, 0, 0, 0]
    assert column(facts, "appeal") == [None] * 6
    assert column(facts, "appeal_rates") == [{"false_positive": 0.0, "false_negative": 0.0}] * 6
    assert at.memory == {"": [None, None]}


def test_the_policy_itself_judges():
    """A tiny policy writes no verdict: nothing is overturned, every appeal is missing, and all of it is counted."""
    asked = {"type": "policy", "attempts": 1, "max_tokens": 4, "context": 4096}
    examiner, at = appeals(judge=asked), examine_kit.context(models.local(concurrency=4), answer=lambda one: "42")
    (group,), metrics = examine_kit.examined([examiner], [judged(VERDICTS)], at)
    facts = [[fact for fact in one.evidence if fact.name != "correct"] for one in group.trajectories]
    assert column([facts], "appeal_outcome") == [1, 1, 0, 0, 0, 0]
    assert column([facts], "appeal") == [None] * 6
    assert metrics["examine/appeal_outcome/failed"] == metrics["examine/appeal_outcome/missing_share"] == 0
    assert metrics["examine/appeal_outcome/judge_calls"] > 0
    assert examiner.asks_policy


# --- to the score ----------------------------------------------------------------------------------------------------


def test_an_overturned_rejection_is_paid_and_gets_credit():
    group = judged([True, False, False, False])
    examiner = Examiner.load(
        {"type": "appeals", "evidence": "correct", "judge": {"type": "policy"}, "share": 1.0, "name": "again"}
    )
    ((*facts,),) = find(examiner, [group], Truth({"task1": True, "task2": False, "task3": None}))
    rubric = Rubric(rewards=(FromEvidence(name="outcome", evidence="again_outcome", kind="outcome"),))
    scored = rubric.score_group(examine_kit.with_facts(group, facts))
    assert [score.total for score in scored.scores] == [1, 1, 0, 0]
    np.testing.assert_allclose(grpo(tabulate([scored]), eps=0), np.array([1, 1, -1, -1]) * np.sqrt(0.75), atol=1e-6)
    assert set(examiner.writes) == {fact.name for own in facts for fact in own}


def test_what_cannot_be_appealed():
    group = judged([0.5, False])
    with pytest.raises(ValueError, match=r"'correct' of trajectory 'task0' is 0\.5; only a verdict"):
        find(appeals(), [group], Truth({}))
    broken = replace(group.trajectories[0], ending=Ending.ENV_ERROR)
    judge = Truth({"task1": False})
    facts = find(appeals(), [replace(group, trajectories=(broken, group.trajectories[1]))], judge)
    assert column(facts, "appeal_outcome") == ["none", 0.0]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"share": 0}, "the judge checks nothing"),
        ({"correct": "forward", "overturned": 0.5}, "overturned has no effect"),
        ({"share": 1.5}, "less than or equal to 1"),
        ({"max_sum": 1}, "less than or equal to 0.999"),
        ({"judge": {"type": "polcy"}}, "did you mean 'policy'"),
    ],
)
def test_settings_that_cannot_work(settings, problem):
    table = {"type": "appeals", "evidence": "correct", "judge": {"type": "policy"}} | settings
    with pytest.raises(ValidationError, match=problem):
        TypeAdapter(Examiner).validate_python(table)
