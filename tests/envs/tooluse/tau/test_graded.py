"""What tau goals compare: texts in one form of their letters, and nothing else made equal."""

import unicodedata

import pytest

from turngate.envs.tooluse.engine.goals import Finish
from turngate.envs.tooluse.engine.gold import GoldRun
from turngate.envs.tooluse.loaders.tau.graded import TauGoal, WantedCall, state_of
from turngate.types import ToolCall

STATE = state_of({}, [])
GOLD = GoldRun(calls=(), before=STATE, after=STATE, touched=frozenset())
NFD = unicodedata.normalize("NFD", "café")


def won(goal, answer, *calls):
    return goal.is_met(Finish(state=STATE, answer=answer, calls=calls, gold=GOLD))


@pytest.mark.parametrize(
    ("told", "said", "right"),
    [
        ("café", f"It is {NFD}.", True),
        ("1234", "That is 1,234 in all.", True),
        ("1234", "That is １，２３４ in all.", True),
        ("STRASSE", "Straße 5", True),
        ("don't", "I don’t", True),
        ("café", "It is cafe.", False),
        ("1020", "These are 10、20.", False),
        ("102", "That is 10².", False),
        ("12", "That is ½.", False),
    ],
)
def test_what_has_to_be_said_is_found_in_any_form_of_its_letters(told, said, right):
    assert won(TauGoal(basis=("COMMUNICATE",), tells=(told,)), said) is right


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ({"name": NFD, "ids": ["１２"]}, True),
        ({"name": "café", "ids": ["12"]}, True),
        ({"name": "Café", "ids": ["12"]}, False),
        ({"name": "cafe", "ids": ["12"]}, False),
        ({"name": "café", "ids": [12]}, False),
        ({"name": "café", "ids": ["12", "13"]}, False),
    ],
)
def test_a_wanted_call_is_met_by_one_with_the_same_texts(given, right):
    wanted = {"name": "café", "ids": ["12"], "by": {"café": 1}}
    given = given | {"by": {NFD: 1} if right else {"café": 1}}
    goal = TauGoal(basis=("ACTION",), wanted=(WantedCall(name="book", arguments=wanted),))
    assert won(goal, "", ToolCall(name="book", arguments=given)) is right
