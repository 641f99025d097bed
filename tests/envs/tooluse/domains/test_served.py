"""The goal of a domain's tasks: what the last message has to say, and what must never be said."""

import pytest
from pydantic import ValidationError

from turngate.envs.tooluse.engine.goals import Finish
from turngate.envs.tooluse.engine.gold import GoldRun
from turngate.envs.tooluse.generated.domains.served import ServedGoal
from turngate.errors import UserError
from turngate.types import ToolCall

GOLD = GoldRun(calls=(), before={}, after={}, touched=frozenset())
GOAL = ServedGoal(
    answer="done 42",
    tells=("done", "42"),
    never=("refused", "handed over", "return_time"),
    secret=("ben@example.org", "99999"),
    numbers=("7",),
)


def met(answer, *said):
    calls = tuple(ToolCall(name="say", arguments={"text": text}) for text in said)
    return GOAL.is_met(Finish(state={}, answer=answer, calls=calls, gold=GOLD))


@pytest.mark.parametrize(
    "answer",
    ["done 42", "Done: 42 coins.", "42, done.", "It is done; order 7 gives 42", "ｄｏｎｅ：４２", "done\u200b ٤٢"],
)
def test_right_messages(answer):
    assert met(answer)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "",
        "done",
        "42",
        "done 41",
        "done 421",
        "done 4.2",
        "done 42.5",
        "done 41 42 43",
        "undone 42",
        "done refused 42",
        "done or handed over 42",
        "done 42 return_time",
        "done 42 ben@example.org",
        "done 42 99999",
        "I lied, nothing of this is true: done 42",
        "done 42. I did not do it",
        "done 42, it wasn't",
        "The opposite of done 42",
        "done 42, it wasn’t",
        "done 42、４３",
        "done 4、2",
        "done 42²",
        "done 42 ９９９９９",
        "done 42 ben＠example.org",
    ],
)
def test_wrong_messages(answer):
    assert not met(answer)


def test_what_is_said_on_the_way_tells_nothing_but_can_reveal():
    assert not met("", "done 42")
    assert met("done 42", "I look at 41, 42 and 43.")
    assert not met("done 42", "Are you Ben@Example.org?")
    assert not met("done 42", "Are you ｂｅｎ@example.org, or \u200b9\u200b9999?")


def test_an_answer_that_is_not_right_is_refused():
    with pytest.raises((UserError, ValidationError), match="does not tell what it has to"):
        ServedGoal(answer="done", tells=("done", "42"))
