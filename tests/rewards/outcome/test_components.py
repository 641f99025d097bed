"""Hidden tests as a component: recorded facts, scored by rule."""

import json

import pytest

from turngate.rewards import Rubric
from turngate.rewards.outcome.components import UnitTests
from turngate.types import Ending, Evidence, Record


def score(component, **evidence):
    facts = tuple(Evidence(name=name, value=value, by="verifier") for name, value in evidence.items())
    record = Record(task_id="t/1", n_turns=2, ending=Ending.FINISHED, evidence=facts)
    return Rubric(rewards=(component,)).score(record)


HARD = UnitTests(name="tests", guard="pass_to_pass")
SOFT = UnitTests(name="tests", guard="pass_to_pass", soft=True)
FIX = {"a": True, "b": False, "c": None}


@pytest.mark.parametrize(
    ("component", "fix", "keep", "outcome"),
    [
        (HARD, {"a": True, "b": True}, {"k": True}, 1.0),
        (HARD, {"a": True, "b": False}, {"k": True}, 0.0),
        (SOFT, {"a": True, "b": False}, {"k": True}, 0.5),
        (SOFT, {"a": True, "b": False}, {"k": False}, 0.0),
        (SOFT, {"a": True, "b": False}, {}, 0.5),
        (HARD, FIX, {"k": True}, 0.0),
        (SOFT, FIX, {"k": True}, None),
        (HARD, {"a": True}, {"k": None}, None),
        (HARD, {}, {"k": True}, None),
        (HARD, None, {"k": True}, None),
        (HARD, {"a": True}, None, None),
    ],
)
def test_one_record_scores_by_either_rule_and_missing_is_unusable(component, fix, keep, outcome):
    result = score(component, fail_to_pass=fix, pass_to_pass=keep)
    assert (result.outcome, result.usable) == (outcome, outcome is not None)
    assert result.total == (outcome or 0.0)


def test_without_a_guard_only_the_tests_to_fix_count():
    assert score(UnitTests(name="tests"), fail_to_pass={"a": True}).outcome == 1.0
    assert not score(HARD, fail_to_pass={"a": True}).usable


def test_evidence_of_another_form_names_component_and_evidence():
    with pytest.raises(
        ValueError, match="component 'tests' of task 't/1', whole episode: evidence 'fail_to_pass' must map"
    ):
        score(UnitTests(name="tests"), fail_to_pass={"a": "passed"})


def test_it_survives_a_trip_through_json():
    rubric = Rubric(rewards=(SOFT,))
    assert Rubric.model_validate(json.loads(rubric.model_dump_json())) == rubric
