"""Reading what a model wrote takes time in proportion to its length, whatever is repeated in it."""

from functools import partial

import pytest

from tests.helpers.growth import SIZES, assert_linear
from turngate.envs.lock import LockEnv
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.read import parse

SHORT = 20_000
REPEATED = [
    *("<function=", "<function=press>", "<function=press>\n<parameter=", "<parameter=", "<parameter=x>"),
    *("</parameter>", "</function>", "<tool_call>", "<tool_call> ", "</tool_call>", "<think>", "</think>"),
    *("<|", "<|channel|>", "<|message|>", "<|call|>", "<|start|>assistant", "to=functions.press", "<|python_tag|>"),
    *("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    *("<think></think>", "a</think><think>", "<tool_call></think>", "[TOOL_CALLS]</think><think>"),
    *('<tool_call>{"name": "press", "arguments": {"x": "</think>', "<tool_call></think><tool_call><think>"),
    *("{", "[", "(", "[{", '{"name":', '{"name": "press", "arguments": {', '"', "'", "\\", "```", "```json\n"),
    *("press(", "press ", "press(x=", "\n", " ", "=", "<", "a", "1", "1,", "-", "é", "\u2028", "#"),
]


@pytest.mark.parametrize("tool_format", ["", *TOOL_FORMATS])
def test_ten_times_the_text_takes_about_ten_times_as_long(tool_format: str) -> None:
    own = REPEATED if not tool_format else [one for one in REPEATED if one[0] in "<[{" and len(one) > 1]
    for one in own:
        texts = [(one * (size // len(one) + 1))[:size] for size in (SHORT, SHORT * SIZES)]
        assert_linear(*(partial(parse, text, LockEnv.turn_spec.tools, tool_format) for text in texts), one)
