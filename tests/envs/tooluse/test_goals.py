"""Goals: when each holds, and what is no goal."""

import pytest
from pydantic import ValidationError

from turngate.envs.tooluse.engine.goals import AnswerGoal, Finish, Goal, right_answers
from turngate.envs.tooluse.engine.gold import GoldRun
from turngate.errors import VerifierError
from turngate.types import ToolCall

LOOK, SET = ToolCall(name="look", arguments={"at": "a"}), ToolCall(name="set", arguments={"at": "a", "to": 5})


def finish(*, state=None, answer=None, calls=(), gold=(LOOK, SET)):
    run = GoldRun(calls=tuple(gold), before=None, after=None, touched=frozenset())
    return Finish(state=state, answer=answer, calls=tuple(calls), gold=run)


def goal(**table):
    return Goal.load(table)


@pytest.mark.parametrize(
    ("holds", "state", "met"),
    [
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a": {"b": True}}, False),
        ({"a.b": 1}, {"a": {}}, False),
        ({"a.0": "x"}, {"a": ["x", "y"]}, True),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}, True),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [2, 1]}}, False),
        ({"a": None}, {}, True),
        ({"a": None}, {"a": 0}, False),
        ({}, {"a": 0}, True),
    ],
)
def test_a_state_holds_what_it_has_to(holds, state, met):
    assert goal(type="state", holds=holds).is_met(finish(state=state)) is met


def test_a_check_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_checks.py").write_text("def even(state):\n    return state['n'] % 2 == 0\n")
    even = goal(type="state", check="own_checks:even", free=["n"])
    assert even.is_met(finish(state={"n": 2}))
    assert not even.is_met(finish(state={"n": 3}))
    assert even.decides == (("n",),)
    with pytest.raises(VerifierError, match="own_checks:even' raised KeyError"):
        even.is_met(finish(state={}))


@pytest.mark.parametrize(
    ("table", "right", "wrong"),
    [
        ({"answer": "The Hague"}, ["hague", "the hague."], ["", "the hague or rome", "rome", None]),
        ({"answer": ["NY", "New York"]}, ["ny", "New York"], ["NY New York", "York"]),
        ({"answer": "1,250", "match": "number"}, ["1250", "1250.0"], ["1250 or 1300", "1251", "about 1250"]),
        ({"answer": "B2, B7", "match": "list"}, ["B7, B2", "b2,b7"], ["B2", "B2, B7, B8", "B2 B7", "B2, B2, B7"]),
        ({"answer": "a, b", "match": "ordered_list"}, ["A, B"], ["b, a", "a, b, a"]),
    ],
)
def test_answers(table, right, wrong):
    asked = goal(type="answer", **table)
    assert all(asked.is_met(finish(answer=answer)) for answer in right)
    assert not any(asked.is_met(finish(answer=answer)) for answer in wrong)
    assert asked.gold_answer == (table["answer"] if isinstance(table["answer"], str) else table["answer"][0])


@pytest.mark.parametrize(
    ("table", "calls", "met"),
    [
        ({}, [LOOK, SET], True),
        ({}, [SET, LOOK], True),
        ({"ordered": True}, [SET, LOOK], False),
        ({}, [LOOK], False),
        ({}, [LOOK, SET, LOOK], False),
        ({"spare": 1}, [LOOK, SET, LOOK], True),
        ({"spare": 1, "ordered": True}, [SET, LOOK, SET], True),
        ({}, [LOOK, LOOK], False),
        ({}, [LOOK, ToolCall(name="set", arguments={"to": "5.0", "at": "A", "why": None})], True),
        ({}, [LOOK, ToolCall(name="set", arguments={"to": 6, "at": "a"})], False),
        ({}, [], False),
    ],
)
def test_calls(table, calls, met):
    assert goal(type="calls", **table).is_met(finish(calls=calls)) is met


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"type": "stat"}, "unknown goal type 'stat'; did you mean 'state'?"),
        ({"type": "answer"}, "Field required"),
        ({"type": "answer", "answer": ""}, "at least 1"),
        ({"type": "answer", "answer": "many", "match": "number"}, "the answer 'many' is not right by match = 'number'"),
        ({"type": "calls", "spare": -1}, "greater than or equal to 0"),
        ({"type": "state", "hold": {}}, "Extra inputs"),
    ],
)
def test_what_is_no_goal(table, said):
    with pytest.raises((ValidationError, Exception)) as raised:
        goal(**table)
    assert said in str(raised.value)


def test_what_goals_say_of_the_right_answer():
    assert right_answers([], "x") == {}
    assert right_answers([AnswerGoal(answer=("a", "b"))], None) == {"gold": ["a", "b"]}
    listed = {"gold": ["a, b"], "gold_items": ["a", "b"]}
    assert right_answers([AnswerGoal(answer="a, b", match="list")], "b, c") == listed | {"items": ["b", "c"]}
    assert right_answers([AnswerGoal(answer="a, b", match="list")], None) == listed | {"items": []}
