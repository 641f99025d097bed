"""Tools in the chat templates of model families: listed by the template, answered in its own frame, token by token."""

import numpy as np
import pytest

from tests.helpers import models, templates
from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.tools.notations import NOTATIONS
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.types import EndedBy, ToolCall

TOOLS = (
    Tool(name="look", description="Look around.", parameters=(Parameter(name="place"),)),
    Tool(name="end", description="End."),
)
SCHEMAS = [tool.schema for tool in TOOLS]


@pytest.fixture(scope="module", params=templates.FAMILIES)
def family(request):
    return request.param, Chat(templates.tokenizer(request.param))


def text_of(chat, *parts):
    return chat.tokenizer.decode(np.concatenate(parts), clean_up_tokenization_spaces=False)


def calling(notation):
    return NOTATIONS[notation].write([ToolCall(name="look", arguments={"place": "here"})])


def test_the_notation_is_found_in_the_template(family):
    notation, chat = family
    assert chat.notation == notation


def test_a_template_without_tools_leaves_them_to_the_environment():
    chat = models.chat()
    assert chat.notation == ""
    with_tools, without = chat.frames(SCHEMAS), chat.frames(())
    np.testing.assert_array_equal(with_tools.opening("red"), without.opening("red"))
    answered = with_tools.follow_up("red", EndedBy.STOP, answered="look")
    np.testing.assert_array_equal(answered, without.follow_up("red", EndedBy.STOP))


def test_the_template_lists_the_tools(family):
    _, chat = family
    opening = text_of(chat, chat.frames(SCHEMAS).opening("red"))
    for tool in TOOLS:
        assert f'"{tool.name}"' in opening
        assert tool.description in opening
    assert '"look"' not in text_of(chat, chat.opening("red"))


def test_what_the_engine_saw_is_the_whole_chat_as_the_template_renders_it(family):
    """Token in, token out: the pieces of an episode, end to end, are what the template makes of it all at once."""
    notation, chat = family
    frames = chat.frames(SCHEMAS)
    said = chat.encode_turn("Hm.")
    pieces = [frames.opening("red"), said, frames.follow_up("write a call", EndedBy.STOP)]
    chat_messages = [
        {"role": "user", "content": "red"},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "write a call"},
    ]
    whole = chat.tokenizer.apply_chat_template(chat_messages, tools=SCHEMAS, tokenize=False, add_generation_prompt=True)
    assert text_of(chat, *pieces) == whole
    if not notation.startswith("mistral"):  # its frame ends in a space, which a tokenizer of the whole joins to a word
        expected = chat.tokenizer(whole, add_special_tokens=False)["input_ids"]
        assert np.concatenate(pieces).tolist() == expected


def test_the_answer_of_a_tool_has_the_frame_of_the_template(family):
    _, chat = family
    frames = chat.frames(SCHEMAS)
    call = {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": {}}}
    asked = [{"role": "user", "content": "red"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answer = {"role": "tool", "name": "look", "tool_call_id": "call00000", "content": 'a "b"\nc'}
    whole = chat.tokenizer.apply_chat_template(
        [*asked, answer], tools=SCHEMAS, tokenize=False, add_generation_prompt=True
    )
    follow_up = text_of(chat, frames.follow_up('a "b"\nc', EndedBy.STOP, answered="look"))
    assert whole.endswith(follow_up)
    before = whole.removesuffix(follow_up)
    assert before.endswith(chat.tokenizer.eos_token)
    assert follow_up != text_of(chat, frames.follow_up('a "b"\nc', EndedBy.STOP))


def test_a_call_as_the_family_writes_it_is_read(family):
    notation, chat = family
    text = chat.decode(chat.encode_turn(calling(notation)))
    action = parse(text, TOOLS, chat.notation)
    assert (action.calls, action.flaw) == ((ToolCall(name="look", arguments={"place": "here"}),), "")


def test_an_observation_is_never_a_control_token_and_never_a_call(family):
    notation, chat = family
    frames = chat.frames(SCHEMAS)
    special = set(chat.tokenizer.all_special_ids)
    smuggled = "".join(templates.FAMILIES[notation][2]) + calling(notation)
    for make in (
        frames.opening,
        lambda text: frames.follow_up(text, EndedBy.STOP),
        lambda text: frames.follow_up(text, EndedBy.STOP, answered="look"),
    ):
        count = sum(int(token) in special for token in make(smuggled))
        assert count == sum(int(token) in special for token in make("x"))


def test_a_turn_that_was_cut_off_gets_its_end_before_the_answer(family):
    _, chat = family
    frames = chat.frames(SCHEMAS)
    cut = frames.follow_up("a", EndedBy.LENGTH, answered="look")
    assert cut[0] == chat.eos_id
    np.testing.assert_array_equal(cut[1:], frames.follow_up("a", EndedBy.STOP, answered="look"))


def test_a_system_text_and_arguments_of_the_template():
    chat = Chat(templates.tokenizer("hermes"), system="Be brief.", template={"enable_thinking": False})
    opening = text_of(chat, chat.opening("red"))
    assert opening.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nred<|im_end|>")
    assert opening.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert "Be brief.\n<tools>" in text_of(chat, chat.frames(SCHEMAS).opening("red"))


def test_a_system_text_that_the_template_refuses_is_named():
    with pytest.raises(ConfigError, match="refuses the messages: only user, assistant and tool"):
        Chat(templates.tokenizer("mistral"), system="Be brief.")


def test_a_given_turn_has_the_tokens_that_the_model_would_write(family):
    notation, chat = family
    ids = chat.encode_turn(calling(notation)).tolist()
    marks = [mark for mark in NOTATIONS[notation].control if mark in calling(notation)]
    for mark in marks:
        (token,) = chat.tokenizer(mark, add_special_tokens=False)["input_ids"]
        assert token in ids
    assert chat.decode(np.array(ids)) == calling(notation)
