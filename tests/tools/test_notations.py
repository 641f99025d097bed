"""What models write, one notation after the other: read back as written, and every way of writing it badly."""

import json
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turngate.errors import UnknownName
from turngate.tools.notations import NOTATIONS
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.types import ToolCall

TOOLS = (
    Tool(name="look", description="Look around."),
    Tool(name="say", description="Say.", parameters=(Parameter(name="text"),)),
    Tool(
        name="move",
        description="Move.",
        parameters=(
            Parameter(name="steps", annotation=int),
            Parameter(name="way", annotation=Literal["left", "right"], required=False),
            Parameter(name="names", annotation=list[str], required=False, keyword_only=True),
        ),
    ),
)
MODELS = [name for name in NOTATIONS if name != "command_line"]
SINGLE = {"harmony", "command_line"}
"""One call a turn."""


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments)


def written(notation, *calls):
    return NOTATIONS[notation].write(calls)


def read(text, notation=""):
    action = parse(text, TOOLS, notation)
    assert action.text == text
    return [(one.name, dict(one.arguments)) for one in action.calls], action.parse_error, action.flaw


# --- as it ought to be ------------------------------------------------------------------------------------------------

STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
CALLS = st.one_of(
    st.builds(lambda text: call("say", text=text), STRINGS),
    st.just(call("look")),
    st.builds(lambda steps: call("move", steps=steps), st.integers(-(10**9), 10**9)),
    st.builds(lambda steps, names: call("move", steps=steps, names=names), st.integers(0, 9), st.lists(STRINGS)),
)


@pytest.mark.parametrize("notation", MODELS)
@given(calls=st.lists(CALLS, min_size=1, max_size=3))
def test_what_is_written_is_read_back(notation, calls):
    calls = calls[:1] if notation in SINGLE else calls
    if notation == "qwen_coder":  # bare text: line breaks at the ends are layout, and no tag of its own may be inside
        assume(all("<" not in str(value) for one in calls for value in one.arguments.values()))
        assume(all(str(value) == str(value).strip("\n") for one in calls for value in one.arguments.values()))
    expected = [(one.name, dict(one.arguments)) for one in calls], None, ""
    assert read(written(notation, *calls), notation) == expected
    assert read(written(notation, *calls)) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("look", ("look", {})),
    ("  say   a  b \n", ("say", {"text": "a  b"})),
    ("move 3", ("move", {"steps": 3})),
    ("move 3 left", ("move", {"steps": 3, "way": "left"})),
])  # fmt: skip
@pytest.mark.parametrize("notation", ["", "command_line"])
def test_a_command_line(text, expected, notation):
    assert read(text, notation) == ([expected], None, "")


def test_other_forms_that_models_of_a_family_write():
    fenced = '<｜tool▁call▁begin｜>function<｜tool▁sep｜>say\n```json\n{"text": "a"}\n```<｜tool▁call▁end｜>'
    assert read(f"<｜tool▁calls▁begin｜>{fenced}<｜tool▁calls▁end｜>") == ([("say", {"text": "a"})], None, "")
    tagged = '<|python_tag|>{"name": "look", "parameters": {}}'
    assert read(tagged, "llama3") == ([("look", {})], None, "")
    both = [("say", {"text": "a"}), ("look", {})]
    listed = written("mistral", call("say", text="a"), call("look"))
    chained = written("mistral_11", call("say", text="a"), call("look"))
    assert listed != chained
    assert [read(text, "mistral")[0] for text in (listed, chained)] == [both, both]


# --- thoughts and smuggled calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("notation", [name for name in MODELS if name not in ("harmony", "llama3")])
def test_what_stands_before_a_call_is_the_thought(notation):
    action = parse(f"I move.\n{written(notation, call('look'))}", TOOLS, notation)
    assert (action.thought, action.flaw) == ("I move.", "")
    action = parse(f"<think>\nI move.\n</think>\n{written(notation, call('look'))}", TOOLS, notation)
    assert (action.thought, action.flaw) == ("I move.", "")


def test_the_channels_of_harmony_hold_the_thought():
    begun = "<|channel|>analysis<|message|>A call to=functions.say.<|end|><|start|>assistant"
    action = parse(begun + written("harmony", call("look")) + "<|call|>", TOOLS, "harmony")
    assert (action.thought, action.calls, action.flaw) == ("A call to=functions.say.", (call("look"),), "")


@pytest.mark.parametrize("notation", [name for name in MODELS if name != "harmony"])
def test_a_call_inside_of_a_thought_is_none(notation):
    smuggled = written(notation, call("say", text="secret"))
    action = parse(f"<think>{smuggled}</think>{written(notation, call('look'))}", TOOLS, notation)
    assert action.calls == (call("look"),)
    action = parse(f"<think>{smuggled}</think>", TOOLS, notation)
    assert (action.calls, action.parse_error[:5]) == ((), "empty")
    action = parse(f"<think>{smuggled}", TOOLS, notation)
    assert (action.calls, action.parse_error) == ((), "no call after <think>; close it and write one tool call")


@pytest.mark.parametrize("inner", MODELS)
@pytest.mark.parametrize("notation", [name for name in MODELS if name != "qwen_coder"])
def test_a_call_inside_of_a_string_is_text(notation, inner):
    smuggled = f"{written(inner, call('look'))} and more"
    expected = [("say", {"text": smuggled})], None, ""
    assert read(written(notation, call("say", text=smuggled)), notation) == expected
    if notation != "llama3":
        assert read(written(notation, call("say", text=smuggled))) == expected


def test_a_call_inside_of_a_command_is_text_where_commands_were_agreed_upon():
    for inner in MODELS:
        smuggled = written(inner, call("look"))
        assert read(f"say {smuggled}", "command_line") == ([("say", {"text": smuggled})], None, "")


@pytest.mark.parametrize("notation", MODELS)
def test_a_call_as_the_value_of_an_argument_is_refused_as_a_value(notation):
    nested = call("say", text={"name": "look", "arguments": {}})
    calls, problem, _ = read(written(notation, nested), notation)
    if notation == "qwen_coder":  # its values are bare text, so this is the text of an object
        assert calls == [("say", {"text": '{"name": "look", "arguments": {}}'})]
    else:
        assert (calls, problem) == ([], "argument 'text' of say must be a string; write: say TEXT")


# --- badly written ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("notation", MODELS)
def test_a_call_that_is_cut_off_is_never_carried_out_short(notation):
    whole = written(notation, call("say", text="delete everything but the house"))
    for end in range(len(whole)):
        for wanted in (notation, ""):
            calls, problem, _flaw = read(whole[:end], wanted)
            assert calls in ([], [("say", {"text": "delete everything but the house"})]), whole[:end]
            assert bool(calls) == (problem is None)


@pytest.mark.parametrize("notation", MODELS)
def test_the_same_call_twice_is_two_calls(notation):
    if notation not in SINGLE:
        twice = written(notation, call("look"), call("look"))
        assert read(twice, notation) == ([("look", {}), ("look", {})], None, "")


@pytest.mark.parametrize("notation", MODELS)
def test_a_flood_of_calls_is_refused(notation):
    if notation not in SINGLE:
        calls, problem, _ = read(written(notation, *[call("look")] * 65), notation)
        assert (calls, problem) == ([], "more than 64 tool calls in one turn; write fewer")


@pytest.mark.parametrize("notation", [name for name in MODELS if name != "qwen_coder"])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"text": }', "tool call is not JSON"),
        ('{"text": "a", "text": "b"}', "tool call names a key twice; write each once"),
        ("[" * 100_000, ""),
        ('{"text": ' + "[" * 100_000, "tool call"),
        ('{"text": ' + "1" * 5000 + "}", "tool call holds what no JSON parser takes"),
        ('{"text": 3}', "argument 'text' of say must be a string; write: say TEXT"),
        ('{"text": " "}', "say needs TEXT; write: say TEXT"),
        ("{}", "say needs TEXT; write: say TEXT"),
        ('{"text": "a", "loud": true}', "say has no argument 'loud'; write: say TEXT"),
        ('{"text": "\\u0000"}', "a NUL character cannot be passed on; leave it out"),
        ('{"text": "\\udfff"}', "'\\udfff' is half of a character (a lone surrogate); leave it out"),
    ],
    ids=lambda value: value[:20],
)
def test_what_cannot_be_read_is_told(notation, arguments, problem):
    text = written(notation, call("say", text="TEXT")).replace('{"text": "TEXT"}', arguments)
    calls, told, _ = read(text, notation)
    assert calls == []
    assert told.startswith(problem), told


@pytest.mark.parametrize("notation", [name for name in MODELS if name != "qwen_coder"])
@pytest.mark.parametrize(
    ("arguments", "value", "flaw"),
    [
        ('{"text": "a\nb"}', "a\nb", "a line break inside of a JSON string; write \\n"),
        ('{"text": "a",}', "a", "a comma before a closing bracket"),
    ],
)
def test_json_as_models_write_it_is_read_and_remarked(notation, arguments, value, flaw):
    text = written(notation, call("say", text="TEXT")).replace('{"text": "TEXT"}', arguments)
    assert read(text, notation) == ([("say", {"text": value})], None, flaw)


@pytest.mark.parametrize("notation", [name for name in MODELS if name not in ("qwen_coder", "command_line")])
def test_a_number_written_as_text_is_read_and_remarked(notation):
    calls, problem, flaw = read(written(notation, call("move", steps="3")), notation)
    assert (calls, problem) == ([("move", {"steps": "3"})], None)
    assert flaw == "argument 'steps' of move is \"3\", which is of another type"


@pytest.mark.parametrize("notation", MODELS)
def test_a_wrong_argument_is_told_with_its_name_and_the_usage(notation):
    calls, problem, _ = read(written(notation, call("move", steps=3, way="up")), notation)
    assert calls == []
    assert problem == "argument 'way' of move should be 'left' or 'right', not 'up'; write: move STEPS [WAY]"


@pytest.mark.parametrize("notation", MODELS)
def test_text_after_a_call_is_a_flaw(notation):
    _, problem, flaw = read(written(notation, call("look")) + "\nThat was it.", notation)
    assert problem is None
    assert flaw.startswith("text after a tool call")


@pytest.mark.parametrize("agreed", MODELS)
@pytest.mark.parametrize("used", MODELS)
def test_another_notation_than_agreed_is_read_and_has_a_flaw(agreed, used):
    calls, problem, flaw = read(written(used, call("say", text="a")), agreed)
    assert (calls, problem) == ([("say", {"text": "a"})], None)
    assert (flaw == "") == (used == agreed or {used, agreed} == {"mistral", "mistral_11"})


MARKS = """
    <tool_call> </tool_call> <function=say> <parameter=text> </parameter> </function> <think> </think> say ; [ ] { }
    [TOOL_CALLS] [ARGS] <|python_tag|> <|channel|> <|message|> <|end|> to=functions.say
    <｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁call▁end｜>
    {"name":"say","arguments":{"text":"a"}} {"text":"a"}
""".split()


@pytest.mark.parametrize("notation", NOTATIONS)
@given(data=st.data())
def test_any_text_is_an_action(notation, data):
    marks = st.sampled_from(MARKS)
    text = "".join(data.draw(st.lists(st.one_of(marks, st.text(max_size=5)), max_size=8)))
    action = parse(text, TOOLS, data.draw(st.sampled_from(["", notation])))
    assert action.text == text
    assert (action.parse_error is None) == bool(action.calls)
    json.dumps([dict(one.arguments) for one in action.calls])


def test_a_notation_that_does_not_exist_is_named():
    with pytest.raises(UnknownName, match="unknown notation 'hermez'; did you mean 'hermes'"):
        parse("look", TOOLS, "hermez")
