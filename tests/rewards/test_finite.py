"""Evidence that is NaN or infinite is refused, whoever of the shipped components and gates reads it, at any depth."""

import math
import re
from typing import Any

import pytest

from tests.rewards.shipped import GATES, REWARDS, STEP, TIDY, WON, types
from turngate.rewards import Gate, Reward, Rubric
from turngate.types import Ending, Evidence, Record

HIDDEN = {
    "plain": lambda bad: bad,
    "in a list": lambda bad: [0.5, [bad]],
    "in a mapping": lambda bad: {"a": {"b": bad}},
}
RUBRICS = [
    (part, Rubric(rewards=(WON, part) if part != WON else (WON,))) for found in REWARDS.values() for part in found
]
RUBRICS += [(gate, Rubric(rewards=(WON, STEP, TIDY), gates=(gate,))) for gate in GATES.values()]
READERS = [(part.name, evidence, rubric) for part, rubric in RUBRICS for evidence in part.reads]


def test_every_shipped_type_is_tried():
    assert types(Reward) == set(REWARDS)
    assert types(Gate) == set(GATES)
    assert {name for name, *_ in READERS} >= {gate.name for gate in GATES.values() if gate.reads}


@pytest.mark.parametrize("turn", [None, 1])
@pytest.mark.parametrize("how", HIDDEN)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_number_is_refused_by_name(bad: float, how: str, turn: Any):
    """Also behind a fact that already decides, and in an episode whose outcome nobody measured."""
    place = "whole episode" if turn is None else "turn 1"
    wrong = []
    for reader, evidence, rubric in READERS:
        said = refusal(rubric, evidence, HIDDEN[how](bad), turn)
        where = (
            rf"evidence '{evidence}' of task 't/1', trajectory 'run-7', {place}, which .*'{re.escape(reader)}'.* reads"
        )
        is_told = re.search(where, said) and f"is {bad}" in said and ("['a']['b']" in said) is (how == "in a mapping")
        wrong += [] if is_told else [f"'{reader}' reading '{evidence}': {said}"]
    assert not wrong, "\n".join(wrong)


def refusal(rubric: Rubric, evidence: str, value: Any, turn: int | None) -> str:
    facts = (Evidence(name=evidence, value=True, turn=0), Evidence(name=evidence, value=value, turn=turn))
    record = Record(task_id="t/1", n_turns=2, ending=Ending.FINISHED, evidence=facts)
    try:
        return f"no refusal but {rubric.score_records([record], names=['run-7'])}"
    except ValueError as error:
        return str(error)


def test_what_the_rubric_does_not_read_is_none_of_its_business():
    facts = (Evidence(name="won", value=True), Evidence(name="loss", value=math.nan))
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts)
    assert Rubric(rewards=(WON,)).score(record).total == 1.0


def test_a_nested_number_that_is_finite_is_read():
    facts = (Evidence(name="fail_to_pass", value={"a": 1, "b": True, "c": 0.0}),)
    record = Record(task_id="t", n_turns=1, ending=Ending.FINISHED, evidence=facts)
    assert Rubric(rewards=REWARDS["unit_tests"][1:]).score(record).total == 0.0
