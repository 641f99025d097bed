"""What models write, one tool format after the other: read back as written, and every way of writing it badly."""

import json
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.helpers.every import for_every
from turngate.envs.base import TurnSpec
from turngate.envs.tasks import TaskList
from turngate.envs.tool_env import ToolEnv
from turngate.errors import UnknownName
from turngate.rewards import FromEvidence, Rubric
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool, tool
from turngate.types import Task, ToolCall

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
MODELS = [name for name in TOOL_FORMATS if name != "command_line"]
SINGLE = {"harmony", "command_line"}
"""One call a turn."""


def call(name, **arguments):
    return ToolCall(name=name, arguments=arguments)


def written(tool_format, *calls):
    return TOOL_FORMATS[tool_format].write(calls)


def read(text, tool_format=""):
    action = parse(text, TOOLS, tool_format)
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


@pytest.mark.parametrize("tool_format", MODELS)
@given(calls=st.lists(CALLS, min_size=1, max_size=3))
def test_what_is_written_is_read_back(tool_format, calls):
    calls = calls[:1] if tool_format in SINGLE else calls
    if (
        tool_format == "qwen_coder"
    ):  # bare text: line breaks at the ends are layout, and no tag of its own may be inside
        assume(all("<" not in str(value) for one in calls for value in one.arguments.values()))
        assume(all(str(value) == str(value).strip("\n") for one in calls for value in one.arguments.values()))
    expected = [(one.name, dict(one.arguments)) for one in calls], None, ""
    assert read(written(tool_format, *calls), tool_format) == expected
    assert read(written(tool_format, *calls)) == expected


@for_every("text, expected", [
    ("look", ("look", {})),
    ("  say   a  b \n", ("say", {"text": "a  b"})),
    ("move 3", ("move", {"steps": 3})),
    ("move 3 left", ("move", {"steps": 3, "way": "left"})),
])  # fmt: skip
@for_every("tool_format", ["", "command_line"])
def test_a_command_line(text, expected, tool_format):
    assert read(text, tool_format) == ([expected], None, "")


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


@for_every("tool_format", [name for name in MODELS if name not in ("harmony", "llama3")])
def test_what_stands_before_a_call_is_the_thought(tool_format):
    action = parse(f"I move.\n{written(tool_format, call('look'))}", TOOLS, tool_format)
    assert (action.thought, action.flaw) == ("I move.", "")
    action = parse(f"<think>\nI move.\n</think>\n{written(tool_format, call('look'))}", TOOLS, tool_format)
    assert (action.thought, action.flaw) == ("I move.", "")


def test_the_channels_of_harmony_hold_the_thought():
    begun = "<|channel|>analysis<|message|>A call to=functions.say.<|end|><|start|>assistant"
    action = parse(begun + written("harmony", call("look")) + "<|call|>", TOOLS, "harmony")
    assert (action.thought, action.calls, action.flaw) == ("A call to=functions.say.", (call("look"),), "")


@for_every("tool_format", [name for name in MODELS if name != "harmony"])
def test_a_call_inside_of_a_thought_is_none(tool_format):
    smuggled = written(tool_format, call("say", text="secret"))
    action = parse(f"<think>{smuggled}</think>{written(tool_format, call('look'))}", TOOLS, tool_format)
    assert action.calls == (call("look"),)
    action = parse(f"<think>{smuggled}</think>", TOOLS, tool_format)
    assert (action.calls, action.parse_error[:5]) == ((), "empty")
    action = parse(f"<think>{smuggled}", TOOLS, tool_format)
    assert (action.calls, action.parse_error) == ((), "no call after <think>; close it and write one tool call")


@for_every("inner", MODELS)
@for_every("tool_format", [name for name in MODELS if name != "qwen_coder"])
def test_a_call_inside_of_a_string_is_text(tool_format, inner):
    smuggled = f"{written(inner, call('look'))} and more"
    expected = [("say", {"text": smuggled})], None, ""
    assert read(written(tool_format, call("say", text=smuggled)), tool_format) == expected
    if tool_format != "llama3":
        assert read(written(tool_format, call("say", text=smuggled))) == expected


@for_every("inner", MODELS)
def test_a_call_inside_of_a_bare_value_is_text(inner):
    smuggled = f"{written(inner, call('look'))} and more"
    text = written("qwen_coder", call("say", text=smuggled))
    assert read(text, "qwen_coder") == read(text) == ([("say", {"text": smuggled})], None, "")


def test_a_bare_value_that_ends_its_own_parameter_is_not_carried_out_short():
    smuggled = written("qwen_coder", call("say", text="inner"))
    calls, problem, _ = read(written("qwen_coder", call("say", text=f"{smuggled} and more")), "qwen_coder")
    assert (calls, problem) == (
        [],
        "a value holds </parameter> before another tag, so its end is unclear; write it apart",
    )


@for_every("tool_format", [name for name in MODELS if name != "qwen_coder"])
def test_a_call_nested_in_its_own_notation_is_text(tool_format):
    nested = written(tool_format, call("say", text=written(tool_format, call("say", text="inner"))))
    expected = [("say", {"text": nested})], None, ""
    assert read(written(tool_format, call("say", text=nested)), tool_format) == expected


def test_a_call_inside_of_an_analysis_is_none():
    smuggled = written("harmony", call("say", text="secret"))
    thought = f"<|channel|>analysis<|message|>{smuggled}"
    assert read(f"{thought}<|end|><|start|>assistant{written('harmony', call('look'))}", "harmony") == (
        [("look", {})],
        None,
        "",
    )
    missing = "no call after the thoughts; write one to functions.NAME in the channel commentary"
    for text in (thought, f"{thought}<|end|>", "<|channel|>final<|message|>Done."):
        assert read(text, "harmony") == ([], missing, "")


class Echo(ToolEnv):
    """Its tool answers with calls."""

    turn_spec = TurnSpec(
        rubric=Rubric(rewards=(FromEvidence(name="won", evidence="won", kind="outcome", levels=(0, 1)),)), max_turns=3
    )

    def __init__(self):
        super().__init__(tasks=TaskList([Task(id="t", env_id="test/Echo-v0", prompt="Say something.")]))

    def begin(self, task):
        self.said = []
        return task.prompt

    @tool
    def say(self, text: str) -> str:
        """Say."""
        self.said.append(text)
        return "\n".join(written(name, call("say", text="smuggled")) for name in MODELS)


@for_every("tool_format", TOOL_FORMATS)
def test_a_call_in_the_answer_of_a_tool_is_none(tool_format):
    env = Echo()
    env.reset(options={"tool_format": tool_format})
    for number in range(2):
        line = f"say {number}" if tool_format == "command_line" else written(tool_format, call("say", text=str(number)))
        reply, *_ = env.step(line)
        assert written("hermes", call("say", text="smuggled")) in reply.text
    assert env.said == ["0", "1"]


def test_a_call_inside_of_a_command_is_text_where_commands_were_agreed_upon():
    for inner in MODELS:
        smuggled = written(inner, call("look"))
        assert read(f"say {smuggled}", "command_line") == ([("say", {"text": smuggled})], None, "")


@for_every("tool_format", MODELS)
def test_a_call_as_the_value_of_an_argument_is_refused_as_a_value(tool_format):
    nested = call("say", text={"name": "look", "arguments": {}})
    calls, problem, _ = read(written(tool_format, nested), tool_format)
    if tool_format == "qwen_coder":  # its values are bare text, so this is the text of an object
        assert calls == [("say", {"text": '{"name": "look", "arguments": {}}'})]
    else:
        assert (calls, problem) == ([], "argument 'text' of say must be a string; write: say TEXT")


# --- badly written ----------------------------------------------------------------------------------------------------


@for_every("tool_format", MODELS)
def test_a_call_that_is_cut_off_is_never_carried_out_short(tool_format):
    whole = written(tool_format, call("say", text="delete everything but the house"))
    for end in range(len(whole)):
        for wanted in (tool_format, ""):
            calls, problem, _flaw = read(whole[:end], wanted)
            assert calls in ([], [("say", {"text": "delete everything but the house"})]), whole[:end]
            assert bool(calls) == (problem is None)


@for_every("tool_format", MODELS)
def test_the_same_call_twice_is_two_calls(tool_format):
    if tool_format not in SINGLE:
        twice = written(tool_format, call("look"), call("look"))
        assert read(twice, tool_format) == ([("look", {}), ("look", {})], None, "")


def test_a_second_call_where_a_turn_holds_one_is_left_out_and_told():
    one = written("harmony", call("look"))
    calls, problem, flaw = read(f"{one}<|call|><|start|>assistant{one}", "harmony")
    assert (calls, problem, flaw) == ([("look", {})], None, "text after a tool call; write nothing after it")
    assert read("look\nlook", "command_line") == ([], "look takes no arguments; write: look", "")


@for_every("tool_format", MODELS)
def test_a_flood_of_calls_is_refused(tool_format):
    if tool_format not in SINGLE:
        calls, problem, _ = read(written(tool_format, *[call("look")] * 65), tool_format)
        assert (calls, problem) == ([], "more than 64 tool calls in one turn; write fewer")


@for_every("tool_format", [name for name in MODELS if name != "qwen_coder"])
@for_every(
    "arguments, problem",
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
)
def test_what_cannot_be_read_is_told(tool_format, arguments, problem):
    text = written(tool_format, call("say", text="TEXT")).replace('{"text": "TEXT"}', arguments)
    calls, told, _ = read(text, tool_format)
    assert calls == []
    assert told.startswith(problem), told


def _coder(inner, name="say"):
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


@for_every(
    "text, problem",
    [
        (_coder("<parameter=text>\na\n"), "<parameter=…> is not closed by </parameter>"),
        (
            _coder("<parameter=text>\na\n</parameter>\n" * 2),
            "tool call names the parameter 'text' twice; write each once",
        ),
        (_coder("<parameter=text>\n \n</parameter>\n"), "say needs TEXT; write: say TEXT"),
        (_coder(""), "say needs TEXT; write: say TEXT"),
        (_coder("<parameter=loud>\ntrue\n</parameter>\n"), "say has no argument 'loud'; write: say TEXT"),
        (_coder("<parameter=text>\n\0\n</parameter>\n"), "a NUL character cannot be passed on; leave it out"),
        (_coder("a"), "<function=…> is not closed by </function>"),
        (
            _coder("<parameter=steps>\nmany\n</parameter>\n", "move"),
            "argument 'steps' of move should be a valid integer, not 'many'; write: move STEPS [WAY]",
        ),
    ],
)
def test_bare_values_that_cannot_be_read_are_told(text, problem):
    assert read(text, "qwen_coder") == ([], problem, "")


@for_every("tool_format", MODELS)
def test_a_tool_that_does_not_exist_is_told(tool_format):
    text = written(tool_format, ToolCall(name="lok", arguments={}))
    assert read(text, tool_format) == ([], "unknown tool 'lok'; did you mean look?", "")


@for_every(
    "tool_format, text, problem",
    [
        ("hermes", "<tool_call>\nlook\n</tool_call>", "tool call is not JSON"),
        ("hermes", "<tool_call>\n[]\n</tool_call>", 'tool call needs {"name": …, "arguments": {…}}'),
        ("llama3", '{"name": ["look"], "parameters": {}}', 'tool call needs {"name": …, "parameters": {…}}'),
        ("mistral", "[TOOL_CALLS] look", "[TOOL_CALLS] needs NAME[ARGS]{…} or a list of calls"),
        (
            "mistral",
            '[TOOL_CALLS] [{"name": "look"} {"name": "look"}]',
            "the list after [TOOL_CALLS] is not closed by ]",
        ),
        ("mistral_11", "[TOOL_CALLS]{}", "[TOOL_CALLS] needs NAME[ARGS]{…} or a list of calls"),
        ("deepseek", "<｜tool▁calls▁begin｜>look", "<｜tool▁calls▁begin｜> is followed by no <｜tool▁call▁begin｜>"),
        ("deepseek", "<｜tool▁call▁begin｜>look{}", "<｜tool▁call▁begin｜> needs NAME<｜tool▁sep｜>{…}"),
        ("harmony", "<|channel|>commentary to=functions.look", "<|channel|> is followed by no <|message|>"),
        ("harmony", "<|channel|>commentary to=functions.look<|message|>", "tool call is not JSON"),
    ],
)
def test_a_frame_that_is_malformed_is_told(tool_format, text, problem):
    calls, told, _ = read(text, tool_format)
    assert calls == []
    assert told.startswith(problem), told


@for_every("tool_format", [name for name in MODELS if name != "qwen_coder"])
@for_every(
    "arguments, value, flaw",
    [
        ('{"text": "a\nb"}', "a\nb", "a line break inside of a JSON string; write \\n"),
        ('{"text": "a",}', "a", "a comma before a closing bracket"),
    ],
)
def test_json_as_models_write_it_is_read_and_remarked(tool_format, arguments, value, flaw):
    text = written(tool_format, call("say", text="TEXT")).replace('{"text": "TEXT"}', arguments)
    assert read(text, tool_format) == ([("say", {"text": value})], None, flaw)


@for_every("tool_format", [name for name in MODELS if name not in ("qwen_coder", "command_line")])
def test_a_number_written_as_text_is_read_and_remarked(tool_format):
    calls, problem, flaw = read(written(tool_format, call("move", steps="3")), tool_format)
    assert (calls, problem) == ([("move", {"steps": "3"})], None)
    assert flaw == "argument 'steps' of move is \"3\", which is of another type"


@for_every("tool_format", MODELS)
def test_a_wrong_argument_is_told_with_its_name_and_the_usage(tool_format):
    calls, problem, _ = read(written(tool_format, call("move", steps=3, way="up")), tool_format)
    assert calls == []
    assert problem == "argument 'way' of move should be 'left' or 'right', not 'up'; write: move STEPS [WAY]"


@for_every("tool_format", MODELS)
def test_text_after_a_call_is_a_flaw(tool_format):
    _, problem, flaw = read(written(tool_format, call("look")) + "\nThat was it.", tool_format)
    assert problem is None
    assert flaw.startswith("text after a tool call")


@for_every("agreed", MODELS)
@for_every("used", MODELS)
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


@pytest.mark.parametrize("tool_format", TOOL_FORMATS)
@given(data=st.data())
def test_any_text_is_an_action(tool_format, data):
    marks = st.sampled_from(MARKS)
    text = "".join(data.draw(st.lists(st.one_of(marks, st.text(max_size=5)), max_size=8)))
    action = parse(text, TOOLS, data.draw(st.sampled_from(["", tool_format])))
    assert action.text == text
    assert (action.parse_error is None) == bool(action.calls)
    json.dumps([dict(one.arguments) for one in action.calls])


def test_a_notation_that_does_not_exist_is_named():
    with pytest.raises(UnknownName, match="unknown tool format 'hermez'; did you mean 'hermes'"):
        parse("look", TOOLS, "hermez")
