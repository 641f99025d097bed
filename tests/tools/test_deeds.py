"""Which calls are deeds, in every tool format: none in a thought, whoever opened it, and none with what is no
number."""

import json

import pytest

from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse, speech_action
from turngate.tools.tool import Parameter, Tool
from turngate.types import ToolCall

TOOLS = (
    Tool(name="look", description="Look."),
    Tool(name="say", description="Say.", parameters=(Parameter(name="text"),)),
    Tool(name="pay", description="Pay.", parameters=(Parameter(name="amount", annotation=float),)),
    Tool(name="pay_all", description="Pay.", parameters=(Parameter(name="amount", annotation=list[float]),)),
    Tool(name="pay_each", description="Pay.", parameters=(Parameter(name="amount", annotation=dict[float, float]),)),
)
LOOK, SECRET = ToolCall(name="look", arguments={}), ToolCall(name="say", arguments={"text": "secret"})
AGREED = [(agreed, name) for name in TOOL_FORMATS for agreed in ("", name)]
"""What was agreed upon, and what is written."""
FRAMED = [(agreed, name) for agreed, name in AGREED if name != "command_line"]
BEFORE = [
    *("<think>{s}</think>{l}", "{s}</think>{l}", "I may {s}\n</think>\n{l}", "a</think>{s}</think>{l}"),
    *("<think>a</think><think>{s}</think>{l}", "<think>a</think>\n\n<think>{s}</think>\n{l}"),
]
"""Thoughts before the call, the template's and the model's own; harmony says each of them in marks of its own too."""
BESIDE = [
    "I see. <think>{s}</think>{l}",
    "<think>a</think>So: <think>{s}</think>{l}",
    "{l}<think>{s}</think>",
    "{l}<think>{s}",
]
ALONE = [
    "{s}</think>",
    "{s}\n</think>\n",
    "<think>{s}</think>",
    "<think>a</think><think>{s}",
    "<think>{s}",
    "b</think><think>{s}",
]


def filled(form, name):
    write = TOOL_FORMATS[name].write
    return form.format(s=write([SECRET]), l=write([LOOK]))


@pytest.mark.parametrize(("agreed", "name"), AGREED)
def test_a_call_in_a_thought_is_never_carried_out(agreed, name):
    inside = [] if name in ("harmony", "llama3", "command_line") else BESIDE
    for form in (*BEFORE, *inside):
        action = parse(filled(form, name), TOOLS, agreed)
        assert action.calls == (LOOK,), (form, action)
    for form in (*ALONE, *BESIDE[:2]):
        action = parse(filled(form, name), TOOLS, agreed)
        assert SECRET not in action.calls, (form, action)
        assert not action.calls or form not in ALONE, (form, action)


@pytest.mark.parametrize(("agreed", "name"), FRAMED)
def test_the_marks_of_a_thought_inside_of_a_value_are_text(agreed, name):
    for text in ("a</think>b", "<think>a</think>", "<think>a", "</think></think> and <think>"):
        call = ToolCall(name="say", arguments={"text": text})
        action = parse(TOOL_FORMATS[name].write([call]), TOOLS, agreed)
        assert (action.calls, action.flaw) == ((call,), ""), text


@pytest.mark.parametrize(("text", "thought", "heard"), [
    ("I think</think>Hello.", "I think", True), ("<think>a</think><think>b</think>Hello.", "ab", True),
    ("I may <tool_call></think>Hello.", "I may <tool_call>", True), ("Hello. <think>look</think>", "", False),
])  # fmt: skip
def test_what_a_user_hears_comes_after_the_thoughts(text, thought, heard):
    action = speech_action(text, {"look"})
    assert (action is not None) == heard
    assert action is None or action.thought == thought


NUMBERS = [
    *("NaN", "Infinity", "-Infinity", "1e999"),
    *(json.dumps(text) for text in ("NaN", "nan", "Infinity", "-inf")),
]


@pytest.mark.parametrize(("agreed", "name"), AGREED)
def test_what_is_no_number_is_refused_with_its_argument(agreed, name):
    for spelt in NUMBERS:
        number = json.loads(spelt)
        for tool, amount in (("pay", number), ("pay_all", [1.0, number]), ("pay_each", {"1": number})):
            text = TOOL_FORMATS[name].write([ToolCall(name=tool, arguments={"amount": amount})])
            action = parse(text, TOOLS, agreed)
            assert action.calls == (), (text, action.calls)
            assert "argument 'amount" in action.parse_error, (text, action.parse_error)
    text = TOOL_FORMATS[name].write([ToolCall(name="pay_each", arguments={"amount": {"nan": 1}})])
    assert "argument 'amount" in (parse(text, TOOLS, agreed).parse_error or "")
