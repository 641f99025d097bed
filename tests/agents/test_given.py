"""A turn that was cut off is not carried out: by no tool format, no policy, and no time that it is taken again."""

from dataclasses import replace

import pytest

from tests.agents.test_forced import TASK, play
from tests.helpers import models
from turngate.agents.given import environment_completion, given_again
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import TokenLimits
from turngate.envs.lock import LockEnv
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.types import CUT_OFF, Action, EndedBy, Guidance, ToolCall

TOOLS = (Tool(name="say", description="Say.", parameters=(Parameter(name="text"),)),)
OWN = Guidance(kind="prefix", level=1, text="", source="self")


@pytest.mark.parametrize("agreed", ["", "same"])
@pytest.mark.parametrize("name", TOOL_FORMATS)
def test_no_beginning_of_a_reply_that_was_cut_off_is_carried_out(name, agreed):
    whole = "<think>hm</think>" + TOOL_FORMATS[name].write([ToolCall(name="say", arguments={"text": "a b"})])
    assert parse(whole, TOOLS).calls
    for end in range(len(whole) + 1):
        action = parse(whole[:end], TOOLS, name if agreed else "", cut_off=True)
        assert (action.text, action.calls, action.parse_error) == (whole[:end], (), CUT_OFF)
        assert action.cut_off
    assert action.thought == "hm"


def test_an_environment_carries_nothing_of_it_out_and_says_that_it_was_too_long():
    with LockEnv() as env:
        env.reset(options={"task": TASK})
        seen, _, _, _, info = env.step(Action(text=LockEnv().oracle(TASK)[0], parse_error=CUT_OFF))
        assert seen.text.startswith(CUT_OFF)
        assert info["action"].cut_off
        assert {fact.name: fact.value for fact in info["evidence"]} == {"right_key": False, "parsed": False}
        assert env.answer() is None


def test_turns_of_a_local_model_without_their_end_are_not_carried_out_and_those_that_end_at_the_limit_are():
    limits = TokenLimits(turn_tokens=4, context=256)
    turns = [turn for one in models.play(models.local(), n_tasks=8, limits=limits) for turn in one.turns]
    cut = [turn for turn in turns if turn.completion.ended_by is EndedBy.LENGTH]
    assert cut
    assert any(len(turn.completion.ids_K) == 4 for turn in turns if turn.completion.ended_by is EndedBy.STOP)
    for turn in turns:
        assert turn.action.cut_off == (turn.completion.ended_by is EndedBy.LENGTH)
        assert not (turn.action.cut_off and turn.action.calls)


def test_what_is_taken_again_is_what_was_given_then():
    right = LockEnv().oracle(TASK)[0]
    (whole,) = play([PrefixTurns(turns=(right,), guidance=OWN)])
    marked = Action(text=right, parse_error=CUT_OFF)
    (cut,) = play([PrefixTurns(turns=(marked,), guidance=OWN)])
    (again,) = play([PrefixTurns(turns=(given_again(cut.turns[0]),), guidance=OWN)])
    assert [one.turns[0].action.cut_off for one in (whole, cut, again)] == [False, True, True]
    assert cut.turns[1].observation == again.turns[1].observation != whole.turns[1].observation
    said = replace(whole.turns[0].completion, ended_by=EndedBy.LENGTH)
    assert environment_completion(said) == marked
    assert given_again(replace(whole.turns[0], completion=said)) == right  # recorded before turns were cut off
