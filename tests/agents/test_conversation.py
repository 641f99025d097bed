"""Messages as servers take them: what stands in a request, word for word, and what a reply becomes.

1. A call that a server made is spelt out again as that call, and its answer is a message of the role ``tool``.
2. A call that the model wrote as text stays text, and its answer is a message of the user.
3. An answer to several calls is one text; the last call has it.
4. Images stand beside the text of a user's message; beside an answer, in a message of their own.
"""

import base64

import pytest

from tests.helpers.galleries import png
from turngate.agents import conversation
from turngate.agents.conversation import ServerCall, as_text, listing, spelt
from turngate.errors import ConfigError
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.types import Message, ToolCall

LOOK = Tool(name="look", description="Look around.", parameters=(Parameter(name="place"),))
RED = png(255, 0, 0)
PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(RED).decode()}}


def said(text):
    """An assistant's turn as a rollout passes it on."""
    return Message(role="assistant", content=text, calls=parse(text, [LOOK], "hermes").calls)


def test_a_call_and_its_answer_are_spelt_out_again():
    text = as_text("I look.", [ServerCall(name="look", arguments='{"place":"är"}')])
    assert text == 'I look.\n<tool_call>\n{"name": "look", "arguments": {"place":"är"}}\n</tool_call>'
    talk = [
        Message(role="system", content="Be brief."),
        Message(role="user", content="Go."),
        said(text),
        Message(role="tool", content="A wall: \ud800"),
    ]
    function = {"name": "look", "arguments": '{"place": "är"}'}
    assert spelt(talk, tools=True) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Go."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "call00200", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call00200", "content": "A wall: ?"},
    ]
    assert spelt(talk, tools=False)[2:] == [
        {"role": "assistant", "content": text},
        {"role": "user", "content": "A wall: ?"},
    ]


def test_an_answer_to_several_calls_stands_with_the_last_one():
    text = as_text("", [ServerCall(name="look", arguments='{"place": "a"}')] * 2)
    rows = spelt([said(text), Message(role="tool", content="Walls.")], tools=True)
    assert (rows[0]["content"], [call["id"] for call in rows[0]["tool_calls"]]) == (None, ["call00000", "call00001"])
    assert rows[1:] == [
        {"role": "tool", "tool_call_id": "call00000", "content": "see the answer to the last call of this turn"},
        {"role": "tool", "tool_call_id": "call00001", "content": "Walls."},
    ]


@pytest.mark.parametrize("text", ["look here", '[TOOL_CALLS][{"name": "look", "arguments": {"place": "a"}}]'])
def test_a_call_that_was_written_as_text_stays_text(text):
    asked = said(text)
    assert asked.calls
    rows = spelt([asked, Message(role="tool", content="Walls.")], tools=True)
    assert rows == [{"role": "assistant", "content": text}, {"role": "user", "content": "Walls."}]


def test_a_call_in_a_thought_is_no_call():
    text = "<think>or <tool_call></think>Hm.\n" + as_text("", [ServerCall(name="look", arguments='{"place": "a"}')])
    (row,) = spelt([said(text)], tools=True)
    assert row["content"] == "<think>or <tool_call></think>Hm."


def test_arguments_that_are_no_json_are_told_to_the_agent_and_stay_text():
    text = as_text("", [ServerCall(name="look", arguments='{"place": ')])
    action = parse(text, [LOOK], "hermes")
    assert (action.calls, "tool call is not JSON" in str(action.parse_error)) == ((), True)
    rows = spelt([said(text), Message(role="user", content="error")], tools=True)
    assert [row["content"] for row in rows] == [text, "error"]


def test_images_are_parts_of_a_users_message_and_follow_an_answer():
    first = Message(role="user", content="Which?", images=(RED,))
    call = as_text("", [ServerCall(name="look", arguments='{"place": "a"}')])
    rows = spelt([first, said(call), Message(role="tool", content="This.", images=(RED, RED))], tools=True)
    assert rows[0] == {"role": "user", "content": [{"type": "text", "text": "Which?"}, PART]}
    assert rows[2:] == [
        {"role": "tool", "tool_call_id": "call00100", "content": "This."},
        {"role": "user", "content": [PART, PART]},
    ]


@pytest.mark.parametrize(
    ("start", "media"),
    [
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBP", "webp"),
    ],
)
def test_the_media_type_is_read_of_the_bytes(start, media):
    (row,) = spelt([Message(role="user", content="", images=(start + b"x",))], tools=False)
    assert row["content"][1]["image_url"]["url"].startswith(f"data:image/{media};base64,")


@pytest.mark.parametrize("image", [b"", b"<svg>", b"RIFF\x00\x00\x00\x00WAVE"])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ConfigError, match="servers take PNG, JPEG, GIF and WebP"):
        spelt([Message(role="user", content="", images=(image,))], tools=False)


def test_an_image_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(conversation, "IMAGE_BYTES", len(RED))
    spelt([Message(role="user", content="", images=(RED,))], tools=False)
    with pytest.raises(ConfigError, match=f"an image of {len(RED) + 1} bytes; at most {len(RED)} are sent"):
        spelt([Message(role="user", content="", images=(RED + b"x",))], tools=False)


def test_a_listing_stands_before_the_first_words_of_the_user():
    talk = (Message(role="system", content="Be brief."), Message(role="user", content="Go.", images=(RED,)))
    system, user = listing(talk, [LOOK.schema])
    assert (system, user.images) == (talk[0], (RED,))
    head, schema, how, call = user.content.removesuffix("\n\nGo.").split("\n", 3)
    assert head == "You have these tools:"
    assert schema.startswith('{"name": "look", "description": "Look around.", "parameters": {')
    assert (how, call) == (
        "Call one by writing:",
        '<tool_call>\n{"name": NAME, "arguments": {ARGUMENTS}}\n</tool_call>',
    )


def test_calls_of_a_tool_without_arguments_go_back_as_an_empty_object():
    (row,) = spelt(
        [Message(role="assistant", content="<tool_call>", calls=(ToolCall(name="a", arguments={}),))], tools=True
    )
    assert row["tool_calls"][0]["function"] == {"name": "a", "arguments": "{}"}
