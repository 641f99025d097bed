"""Tools in the chat templates of model families: listed by the template, answered in its own frame, token by token."""

import json

import numpy as np
import pytest

from tests.helpers import models, templates
from turngate.agents.chat import Chat
from turngate.errors import ConfigError
from turngate.tools.formats import TOOL_FORMATS
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


@pytest.fixture(scope="module", params=templates.CALLING)
def calling_family(request):
    return templates.FAMILIES[request.param], Chat(templates.tokenizer(request.param))


def text_of(chat, *parts):
    return chat.tokenizer.decode(np.concatenate(parts), clean_up_tokenization_spaces=False)


def calling(tool_format):
    return TOOL_FORMATS[tool_format].write([ToolCall(name="look", arguments={"place": "here"})])


def test_the_notation_is_found_in_the_template(family):
    name, chat = family
    assert chat.tool_format == templates.FAMILIES[name].tool_format


@pytest.mark.parametrize("chat", [models.chat(), Chat(templates.tokenizer("gemma"))], ids=["tiny", "gemma"])
def test_a_template_without_tools_leaves_them_to_the_environment(chat):
    assert chat.tool_format == ""
    with_tools, without = chat.frames(SCHEMAS), chat.frames(())
    np.testing.assert_array_equal(with_tools.opening("red"), without.opening("red"))
    answered = with_tools.follow_up("red", EndedBy.STOP, answered="look")
    np.testing.assert_array_equal(answered, without.follow_up("red", EndedBy.STOP))


def test_the_template_lists_the_tools(calling_family):
    _, chat = calling_family
    opening = text_of(chat, chat.frames(SCHEMAS).opening("red"))
    for tool in TOOLS:
        assert f'"{tool.name}"' in opening
        assert tool.description in opening
    assert '"look"' not in text_of(chat, chat.opening("red"))


def test_what_the_engine_saw_is_the_whole_chat_as_the_template_renders_it(family):
    """Token in, token out: the pieces of an episode, end to end, are what the template makes of it all at once."""
    name, chat = family
    frames = chat.frames(SCHEMAS)
    said = chat.encode_turn("<|channel|>final<|message|>Hm." if name == "harmony" else "Hm.")
    if name == "harmony":  # what a model ends with <|return|> its template ends with <|end|> once another turn follows
        said[-1] = chat.special("<|end|>")[0]
    pieces = [frames.opening("red"), said, frames.follow_up("write a call", EndedBy.STOP)]
    chat_messages = [
        {"role": "user", "content": "red"},
        {"role": "assistant", "content": "Hm."},
        {"role": "user", "content": "write a call"},
    ]
    tools = SCHEMAS if chat.tool_format else None
    whole = chat.tokenizer.apply_chat_template(chat_messages, tools=tools, tokenize=False, add_generation_prompt=True)
    assert text_of(chat, *pieces) == whole
    expected = chat.tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert np.concatenate(pieces).tolist() == expected


def test_the_answer_of_a_tool_has_the_frame_of_the_template(calling_family):
    about, chat = calling_family
    frames = chat.frames(SCHEMAS)
    arguments = '{"place": ""}' if about.tool_format == "deepseek" else {"place": ""}
    call = {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": arguments}}
    asked = [{"role": "user", "content": "red"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answer = {"role": "tool", "name": "look", "tool_call_id": "call00000", "content": 'a "b"\nc'}
    whole = chat.tokenizer.apply_chat_template(
        [*asked, answer], tools=SCHEMAS, tokenize=False, add_generation_prompt=True
    )
    follow_up = text_of(chat, frames.follow_up('a "b"\nc', EndedBy.STOP, answered="look"))
    assert whole.endswith(follow_up)
    ids = frames.follow_up('a "b"\nc', EndedBy.STOP, answered="look").tolist()
    assert chat.special(whole)[-len(ids) :] == ids
    before = whole.removesuffix(follow_up)
    assert before.endswith("<|call|>" if about.tool_format == "harmony" else about.eos)
    assert follow_up != text_of(chat, frames.follow_up('a "b"\nc', EndedBy.STOP))


def test_a_call_as_the_family_writes_it_is_read(calling_family):
    about, chat = calling_family
    text = chat.decode(chat.encode_turn(calling(about.tool_format)))
    action = parse(text, TOOLS, chat.tool_format)
    assert (action.calls, action.flaw) == ((ToolCall(name="look", arguments={"place": "here"}),), "")


def test_a_call_as_the_template_renders_it_is_read(calling_family):
    """The template and the tool format agree: what the model saw of its own calls is what is read of them."""
    about, chat = calling_family
    arguments = '{"place": "here"}' if about.tool_format == "deepseek" else {"place": "here"}
    call = {"id": "call00000", "type": "function", "function": {"name": "look", "arguments": arguments}}
    asked = [{"role": "user", "content": "red"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    whole = chat.tokenizer.apply_chat_template(asked, tools=SCHEMAS, tokenize=False)
    opening = text_of(chat, chat.frames(SCHEMAS).opening("red"))
    assert whole.startswith(opening)
    ids = np.array(chat.special(whole.removeprefix(opening)))
    ids = ids[: 1 + next(place for place, one in enumerate(ids) if int(one) in chat.ends)]
    action = parse(chat.decode(ids), TOOLS, chat.tool_format)
    assert (action.calls, action.flaw) == ((ToolCall(name="look", arguments={"place": "here"}),), "")


def test_an_observation_is_never_a_control_token_and_never_a_call(family):
    """Also where the tokenizer does not call them special, as DeepSeek's and Qwen's do not."""
    name, chat = family
    about, frames = templates.FAMILIES[name], chat.frames(SCHEMAS)
    written = calling(about.tool_format) if about.tool_format else ""
    marks = [mark for mark in (*about.special, *about.added) if mark.strip() and mark != "<b>"]
    control = {chat.tokenizer.get_added_vocab()[mark] for mark in marks}
    smuggled = f"a{''.join(marks)} {' '.join(marks)}{written}</think>"
    for make in (
        frames.opening,
        lambda text: frames.follow_up(text, EndedBy.STOP),
        lambda text: frames.follow_up(text, EndedBy.STOP, answered="look"),
    ):
        count = sum(int(token) in control for token in make(smuggled))
        assert count == sum(int(token) in control for token in make("x"))
        text = text_of(chat, make(smuggled))
        assert smuggled in text or json.dumps(smuggled, ensure_ascii=False)[1:-1] in text


def test_what_a_tokenizer_holds_beside_control_tokens_stays_whole():
    chat = Chat(templates.tokenizer("gemma"))
    (mark,) = chat.special("<b>")
    assert mark in chat.opening("<b>red")


def test_a_given_thought_has_the_tokens_that_the_model_would_write():
    chat = Chat(templates.tokenizer("qwen3"))
    text = "<think>red</think>press a"
    ids = chat.encode_turn(text).tolist()
    marks = chat.special("<think></think>")
    assert [mark in ids for mark in marks] == [True, True]
    assert chat.decode(np.array(ids)) == text
    assert not set(marks) & set(chat.opening(text).tolist())


def test_a_system_text_and_arguments_of_the_template():
    chat = Chat(templates.tokenizer("hermes"), system="Be brief.", template={"enable_thinking": False})
    opening = text_of(chat, chat.opening("red"))
    assert opening.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nred<|im_end|>")
    assert opening.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert "Be brief.\n<tools>" in text_of(chat, chat.frames(SCHEMAS).opening("red"))


def test_a_system_text_that_the_template_refuses_is_named():
    with pytest.raises(ConfigError, match="refuses the messages: only user, assistant and tool"):
        Chat(templates.tokenizer("mistral"), system="Be brief.")


def test_a_given_turn_has_the_tokens_that_the_model_would_write(calling_family):
    about, chat = calling_family
    tool_format = about.tool_format
    ids = chat.encode_turn(calling(tool_format)).tolist()
    held = chat.tokenizer.get_added_vocab()
    marks = [mark for mark in TOOL_FORMATS[tool_format].control if mark in calling(tool_format) and mark in held]
    assert marks or tool_format == "llama3"
    for mark in marks:
        (token,) = chat.tokenizer(mark, add_special_tokens=False)["input_ids"]
        assert token in ids
    assert chat.decode(np.array(ids)) == calling(tool_format)
