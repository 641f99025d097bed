"""What an agent may write in the two tool formats that everybody shares, and what it is told about the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.tools.read import parse
from turngate.tools.tool import Parameter, Tool
from turngate.types import ToolCall

TOOLS = (
    Tool(name="list_tables", description="Names of all tables."),
    Tool(name="describe", description="Columns.", parameters=(Parameter(name="table"),)),
    Tool(name="run_sql", description="Run a query.", parameters=(Parameter(name="query"),)),
    Tool(name="move", description="Move.", parameters=(Parameter(name="piece"), Parameter(name="to", required=False))),
)


def calls(text):
    action = parse(text, TOOLS)
    assert action.parse_error is None, action.parse_error
    return [(call.name, dict(call.arguments)) for call in action.calls]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list_tables", ("list_tables", {})),
        ("  describe   song \n", ("describe", {"table": "song"})),
        (
            "run_sql SELECT a,\n  b FROM t WHERE c = 'x  y'",
            ("run_sql", {"query": "SELECT a,\n  b FROM t WHERE c = 'x  y'"}),
        ),
        ("run_sql\nSELECT 1", ("run_sql", {"query": "SELECT 1"})),
        ("move king e2 quickly", ("move", {"piece": "king", "to": "e2 quickly"})),
        ("move king", ("move", {"piece": "king"})),
        ("<think>why not</think> list_tables", ("list_tables", {})),
    ],
)
def test_a_command_line(text, expected):
    assert calls(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<tool_call>{"name": "list_tables"}</tool_call>', [("list_tables", {})]),
        (
            'First.\n<tool_call>\n{"name": "describe", "arguments": {"table": "a b"}}\n</tool_call>\n'
            '<tool_call>{"name": "list_tables", "arguments": {}}</tool_call>',
            [("describe", {"table": "a b"}), ("list_tables", {})],
        ),
    ],
)
def test_a_tool_call_of_a_chat_model(text, expected):
    assert calls(text) == expected


@pytest.mark.parametrize(
    ("text", "thought"),
    [
        ("<think> a\nb </think>list_tables", "a\nb"),
        ('I look first. <tool_call>{"name": "list_tables"}</tool_call>', "I look first."),
        ('<think>x</think>y<tool_call>{"name": "list_tables"}</tool_call>', "x"),
        ("list_tables", ""),
    ],
)
def test_the_thought_is_what_stands_before_the_call(text, thought):
    assert parse(text, TOOLS).thought == thought


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty; tools: list_tables | describe TABLE | run_sql QUERY | move PIECE [TO]"),
        (" \n", "empty; tools: list_tables | describe TABLE | run_sql QUERY | move PIECE [TO]"),
        ("descibe song", "unknown tool 'descibe'; did you mean describe?"),
        ("???", "unknown tool '???'; tools: list_tables | describe TABLE | run_sql QUERY | move PIECE [TO]"),
        ("describe", "describe needs TABLE; write: describe TABLE"),
        ("list_tables now", "list_tables takes no arguments; write: list_tables"),
        ("<think>never closed", "no call after <think>; close it and write one tool call"),
        ("<tool_call>{", "<tool_call> is not closed by </tool_call>"),
        ("<tool_call>[1]</tool_call>", 'tool call needs {"name": …, "arguments": {…}}'),
        ('<tool_call>{"name": "describe", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
        (
            '<tool_call>{"name": "describe", "arguments": {"tabel": "a"}}</tool_call>',
            "describe has no argument 'tabel'; write: describe TABLE",
        ),
        (
            '<tool_call>{"name": "describe", "arguments": {"table": 3}}</tool_call>',
            "argument 'table' of describe must be a string; write: describe TABLE",
        ),
        (
            '<tool_call>{"name": "describe", "arguments": {"table": " "}}</tool_call>',
            "describe needs TABLE; write: describe TABLE",
        ),
    ],
)
def test_a_bad_call_is_told_what_to_write(text, problem):
    action = parse(text, TOOLS)
    assert (action.parse_error, action.calls) == (problem, ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run_sql SELECT '\0'", "a NUL character cannot be passed on; leave it out"),
        ("run_sql \ud800", "'\\ud800' is half of a character (a lone surrogate); leave it out"),
        (
            '<tool_call>{"name": "run_sql", "arguments": {"query": "\\u0000"}}</tool_call>',
            "a NUL character cannot be passed on; leave it out",
        ),
        (
            '<tool_call>{"name": "run_sql", "arguments": {"query": "\\udfff"}}</tool_call>',
            "'\\udfff' is half of a character (a lone surrogate); leave it out",
        ),
        (
            '<tool_call>{"name": "\\udfff", "arguments": {}}</tool_call>',
            "'\\udfff' is half of a character (a lone surrogate); leave it out",
        ),
    ],
)
def test_what_nothing_can_store_is_refused(text, problem):
    action = parse(text, TOOLS)
    assert (action.parse_error, action.calls) == (problem, ())


def test_broken_json_names_the_problem():
    assert parse("<tool_call>{'name': 1}</tool_call>", TOOLS).parse_error.startswith("tool call is not JSON: ")


@pytest.mark.parametrize("value", ["[" * 100_000, "9" * 5_000])
def test_json_that_no_parser_takes(value):
    text = '<tool_call>{"name": "run_sql", "arguments": {"query": ' + value + "}}</tool_call>"
    assert parse(text, TOOLS).parse_error == "tool call holds what no JSON parser takes"


def test_one_bad_call_refuses_all_of_them():
    text = '<tool_call>{"name": "list_tables"}</tool_call><tool_call>{"name": "nope"}</tool_call>'
    assert parse(text, TOOLS).calls == ()


def test_a_long_unknown_name_is_not_repeated_in_full():
    assert len(parse("x" * 10_000, TOOLS).parse_error) < 200


PIECES = st.sampled_from(
    ["<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "describe"', "describe ", "}"]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=8).map("".join))


@given(TEXTS)
def test_whatever_is_written_is_kept_and_never_raises(text):
    action = parse(text, TOOLS)
    assert action.text == text
    assert (action.parse_error is None) == (len(action.calls) > 0)


@given(st.text(), st.sampled_from([(), TOOLS]))
def test_json_calls_carry_any_text(value, tools):
    text = "<tool_call>" + json.dumps({"name": "run_sql", "arguments": {"query": value}}) + "</tool_call>"
    action = parse(text, tools)
    if tools and value.strip() and "\0" not in value:
        assert action.calls == (ToolCall(name="run_sql", arguments={"query": value}),)
    else:
        assert action.parse_error


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1).filter(lambda text: text.strip()))
def test_both_notations_mean_the_same(value):
    argument = value.strip()
    command = parse(f"run_sql {argument}", TOOLS)
    assert command.calls == (ToolCall(name="run_sql", arguments={"query": argument}),)


def test_usage_puts_optional_arguments_in_brackets():
    assert [tool.usage for tool in TOOLS] == ["list_tables", "describe TABLE", "run_sql QUERY", "move PIECE [TO]"]


def note(annotation):
    return (Tool(name="note", description="Note.", parameters=(Parameter(name="text", annotation=annotation),)),)


@pytest.mark.parametrize(
    ("annotation", "written", "expected"),
    [
        (str | None, "12345", "12345"),
        (str | None, "true", "true"),
        (str | None, "[1", "[1"),
        (str | None, "null", None),
        (str | None, '"12"', "12"),
        (str | int, "12", 12),
        (str | int, "1.5", "1.5"),
        (str | list[int], "[1, 2]", [1, 2]),
        (str | list[int], '["a"]', '["a"]'),
        (int, "12", 12),
    ],
)
def test_a_bare_value_is_text_where_the_type_allows_text_and_no_other_kind_fits(annotation, written, expected):
    action = parse(f"note {written}", note(annotation))
    assert action.parse_error is None
    assert action.calls[0].arguments["text"] == expected


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "[1, NaN]", '{"deep": [Infinity]}', "1e999", str(10**100)])
@pytest.mark.parametrize(
    "written", ["note {}", '<tool_call>{{"name": "note", "arguments": {{"text": {}}}}}</tool_call>']
)
def test_what_cannot_be_counted_with_is_refused_with_the_name_of_the_argument(value, written):
    for annotation in (Any, float | list[float] | dict[str, list[float]]):
        assert "argument 'text' of note holds " in parse(written.format(value), note(annotation)).parse_error
