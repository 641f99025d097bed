"""The two rubrics of the SQL environment on recorded evidence."""

import json

import pytest

from turngate.envs.sql.rubric import REASONING_RUBRIC, RUBRIC
from turngate.rewards import Rubric
from turngate.types import Ending, Evidence, Record


def turn(index, *, parsed=True, **facts):
    return [Evidence(name=name, value=value, turn=index) for name, value in {"parsed": parsed, **facts}.items()]


def episode(correct, *turns):
    facts = [fact for index, given in enumerate(turns) for fact in turn(index, **given)]
    facts.append(Evidence(name="correct", value=correct, by="verifier"))
    return Record(task_id="sql/1", n_turns=len(turns), ending=Ending.FINISHED, evidence=tuple(facts))


GOOD = {"executes": True, "repeated": False, "empty": False}
FAILED = {"executes": False, "repeated": False}
REPEATED = {"executes": True, "repeated": True, "empty": True}
MISREAD = {"parsed": False}


@pytest.mark.parametrize("rubric", [RUBRIC, REASONING_RUBRIC])
def test_nothing_can_overtake_a_right_answer(rubric):
    assert rubric.check().safe, str(rubric.check())
    assert Rubric.model_validate(json.loads(rubric.model_dump_json())) == rubric


@pytest.mark.parametrize(
    ("turns", "total"),
    [
        ([GOOD, GOOD], 1.0 + 0.15 + 0.05),
        ([GOOD, FAILED], 1.0 + 0.075 + 0.05),
        ([GOOD, REPEATED], 1.0 + 0.15 + 0.05 - 0.05 - 0.025),
        ([GOOD, MISREAD], 1.0 + 0.15 + 0.025),
    ],
)
def test_what_a_won_episode_is_paid(turns, total):
    score = REASONING_RUBRIC.score(episode(True, *turns))
    assert score.total == pytest.approx(total, abs=1e-5)
    assert score.reward_T.sum() == pytest.approx(total, abs=1e-5)


def test_process_counts_only_in_episodes_that_were_won():
    assert REASONING_RUBRIC.score(episode(False, GOOD, GOOD, GOOD)).total == 0.0
    assert REASONING_RUBRIC.score(episode(False, MISREAD, REPEATED)).total == 0.0


def test_more_turns_of_the_same_kind_earn_nothing():
    once, often = (REASONING_RUBRIC.score(episode(True, *[GOOD] * n)).total for n in (1, 11))
    assert often == pytest.approx(once)


def test_a_write_attempt_costs_everything():
    assert REASONING_RUBRIC.score(episode(True, GOOD | {"write_attempt": True})).total == -1.0
