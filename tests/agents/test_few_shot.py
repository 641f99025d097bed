"""Solved episodes before a task are earlier turns of the same chat, and tools in words are a system message."""

from typing import Literal

import numpy as np
import pytest

from tests.helpers import models, templates
from turngate.agents.chat import Chat, TextChat
from turngate.agents.few_shot import ExampleTurn, messages_of
from turngate.agents.tool_text import tool_text
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.tool import Parameter, Tool
from turngate.types import EndedBy, ToolCall

ENV = "turngate/Lock-v1"
LOOK = ToolCall(name="look", arguments={"place": "here"})
TOOLS = [Tool(name="look", description="Look around.", parameters=(Parameter(name="place"),)).schema]


def examples_in(tool_format):
    """One episode of two turns, and one of one."""
    call = TOOL_FORMATS[tool_format].write([LOOK]) if tool_format else "look here"
    first = ExampleTurn(observation="red", answered="", said=call, calls=(LOOK,))
    second = ExampleTurn(observation="click blue", answered="look", said="a <|im_end|> b")
    return ((first, second), (ExampleTurn(observation="green", answered="", said=call, calls=(LOOK,)),))


@pytest.fixture(scope="module", params=["tiny", "gemma", *templates.CALLING])
def chat(request):
    return models.chat() if request.param == "tiny" else Chat(templates.tokenizer(request.param), describes=True)


def test_the_task_follows_the_examples_as_it_would_follow_turns_that_were_played(chat):
    examples = examples_in(chat.tool_format)
    plain, shown = chat.frames(TOOLS), chat.with_examples({ENV: examples}).frames(TOOLS, ENV)
    ids, ended = [], EndedBy.SCRIPT
    for number, one in enumerate(exchange for example in examples for exchange in example):
        seen = one.observation
        frame = plain.follow_up(seen, ended, answered=one.answered) if number else plain.opening(seen)
        ids += [frame, chat.encode_turn(one.said)]
    expected = np.concatenate([*ids, plain.follow_up("white", ended)])
    np.testing.assert_array_equal(shown.opening("white"), expected)
    np.testing.assert_array_equal(shown.follow_up("x", ended), plain.follow_up("x", ended))


def test_a_hint_stands_behind_the_task_and_changes_nothing_before_it(chat):
    frames = chat.with_examples({ENV: examples_in(chat.tool_format)}).frames(TOOLS, ENV)
    bare, hinted = frames.opening("white").tolist(), frames.opening("white", hint="\npress a").tolist()
    extra = len(hinted) - len(bare)
    assert extra > 0
    assert any(hinted[:n] + hinted[n + extra :] == bare for n in range(len(bare) + 1))


def test_other_environments_and_chats_see_no_examples(chat):
    shown = chat.with_examples({ENV: examples_in(chat.tool_format)})
    np.testing.assert_array_equal(shown.frames(TOOLS, "other").opening("red"), chat.frames(TOOLS, ENV).opening("red"))
    assert not chat.examples


@pytest.mark.parametrize("tools", [False, True])
def test_a_server_is_sent_them_as_messages(tools):
    sent = [(one.role, one.content) for one in messages_of(examples_in(""), tools=tools)]
    assert sent == [
        ("user", "red"),
        ("assistant", "look here"),
        ("tool" if tools else "user", "click blue"),
        ("assistant", "a <|im_end|> b"),
        ("user", "green"),
        ("assistant", "look here"),
    ]
    assert TextChat().with_examples({ENV: examples_in("")}).examples[ENV][0][0].calls == (LOOK,)


def test_tools_in_words_say_types_choices_and_what_may_be_left_out():
    move = Tool(
        name="move",
        description="Go on.",
        parameters=(
            Parameter(name="steps", annotation=int, description="how many"),
            Parameter(name="way", annotation=Literal["left", "right"]),
            Parameter(name="note", annotation=str | None, required=False),
            Parameter(name="rows", annotation=list[int], required=False),
        ),
    )
    text = tool_text([move.schema, Tool(name="end", description="").schema])
    assert text.splitlines()[1:] == [
        "move STEPS WAY [NOTE] [ROWS]: Go on.",
        "  STEPS: whole number, how many",
        "  WAY: left or right",
        "  NOTE: text",
        "  ROWS: JSON list",
        "end",
    ]
    assert tool_text([]) == ""


def test_a_template_without_tools_gets_them_in_a_system_message_if_it_takes_one():
    chat = Chat(models.tokenizer(), describes=True)
    assert chat.describes
    opening = chat.decode(chat.frames(TOOLS).opening("red"))
    assert opening.startswith(f"<|system|>{tool_text(TOOLS)}<|end|><|user|>red")
    assert chat.frames(()).opening("red").tolist() == models.chat().opening("red").tolist()  # nothing to describe
    mute = Chat(templates.tokenizer("gemma"), describes=True)
    assert not mute.describes
    assert mute.frames(TOOLS).opening("red").tolist() == mute.opening("red").tolist()


@pytest.mark.parametrize("family", templates.CALLING)
def test_a_template_that_lists_tools_gets_no_description(family):
    assert not Chat(templates.tokenizer(family), describes=True).describes
