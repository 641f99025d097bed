"""Whatever a model writes, in whatever tool format, is an action: read, or refused with a sentence for the agent.

1. Nothing raw: reading never raises, and keeps the text.
2. What was read can be carried out, stored and sent on: a tool that exists, arguments that JSON and UTF-8 can spell.
3. Nothing slow: ten times the text takes about ten times as long.
"""

import json
from functools import partial
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import examples
from tests.fuzz.texts import FORMATS, MARKS, TEXTS, action_texts
from tests.helpers.growth import SIZES, assert_linear
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse, rewritten, speech_action
from turngate.tools.tool import Parameter, Tool
from turngate.types import ToolCall

TOOLS = (
    Tool(name="look", description="Look."),
    Tool(name="say", description="Say.", parameters=(Parameter(name="text"),)),
    Tool(
        name="move",
        description="Move.",
        parameters=(
            Parameter(name="steps", annotation=int),
            Parameter(name="way", annotation=Literal["left", "right"], required=False),
            Parameter(name="rows", annotation=dict[str, float | None], required=False),
            Parameter(name="names", annotation=list[str] | str | None, required=False, keyword_only=True),
        ),
    ),
)
NAMES = [tool.name for tool in TOOLS]
ARGUMENTS = ["text", "steps", "way", "rows", "names"]
SHORT = 6_000
"""Of processor time: what a busy machine adds to the longer text."""


@pytest.mark.parametrize("tool_format", FORMATS)
@examples(80)
@given(text=action_texts(NAMES, ARGUMENTS))
def test_every_text_is_read_or_refused_in_words(tool_format, text):
    action = parse(text, TOOLS, tool_format)
    assert action.text == text
    assert bool(action.calls) is (action.parse_error is None)
    assert action.parse_error is None or action.parse_error.strip()
    for call in action.calls:
        assert call.name in NAMES
        json.dumps(dict(call.arguments), allow_nan=False, ensure_ascii=False).encode()
    speech_action(text, set(NAMES))


@pytest.mark.parametrize("tool_format", TOOL_FORMATS)
@examples(30)
@given(text=action_texts(NAMES, ARGUMENTS))
def test_what_was_read_means_the_same_in_every_other_format(tool_format, text):
    action = parse(text, TOOLS)
    if tool_format in ("command_line", "harmony") and len(action.calls) > 1:  # they have one call a turn
        return
    again = parse(rewritten(text, TOOLS, tool_format), TOOLS, tool_format)
    if (
        action.calls
        and TOOL_FORMATS[tool_format].write(action.calls).strip()
        and tool_format not in ("command_line", "qwen_coder")
    ):
        assert again.calls == action.calls


@examples(60)
@given(
    tool_format=st.sampled_from(FORMATS),
    before=st.sampled_from(["", *MARKS]),
    repeated=st.lists(
        st.one_of(st.sampled_from(MARKS), TEXTS.filter(lambda text: len(text) < 30)), min_size=1, max_size=3
    ),
    after=st.sampled_from(["", *MARKS]),
)
def test_ten_times_the_text_takes_about_ten_times_as_long(tool_format, before, repeated, after):
    unit = "".join(repeated) or " "
    texts = [before + (unit * (size // len(unit) + 1))[:size] + after for size in (SHORT, SHORT * SIZES)]
    assert_linear(*(partial(understood, text, tool_format) for text in texts), unit)


def understood(text: str, tool_format: str) -> None:
    """Read a text as calls, and as speech."""
    parse(text, TOOLS, tool_format)
    speech_action(text, set(NAMES))


def call_with_keys(tool_format: str, n: int) -> str:
    rows = {f"row {number}": None for number in range(n)}
    return TOOL_FORMATS[tool_format].write([ToolCall(name="move", arguments={"steps": 1, "rows": rows})])


def speech(tool_format: str, n: int) -> str:
    return "".join(f"Well, that is number {number}. " for number in range(n))


@pytest.mark.parametrize(("made", "n"), [(call_with_keys, 20_000), (speech, 10_000)])
@pytest.mark.parametrize("tool_format", TOOL_FORMATS)
def test_large_dictionaries_and_long_speech_are_read_in_time_that_grows_with_them(tool_format, made, n):
    assert_linear(*(partial(understood, made(tool_format, size), tool_format) for size in (n, n * SIZES)), tool_format)
