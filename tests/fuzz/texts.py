"""What models, servers and files may hold: odd JSON, texts in every tool format, and texts that were damaged."""

import json

from hypothesis import strategies as st

from turngate.tools.formats import TOOL_FORMATS

MARKS = [
    *("<function=", "</function>", "<parameter=", "</parameter>", ">", "<tool_call>", "</tool_call>", "<think>"),
    *("</think>", "<|channel|>", "<|message|>", "<|call|>", "<|start|>assistant", "commentary", "to=functions."),
    *("<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    *("<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "```json\n", "```", "function", "<|", "<｜"),
    *("{", "}", "[", "]", "(", ")", '"', "'", ",", ":", "=", "\\", "\\u", "\n", "\r", " ", "#", "\x00", "\u2028"),
    *('{"name": "', '", "arguments": {', '"parameters": ', "null", "true", "NaN", "-Infinity", "1e999", "\ud800"),
]
"""What tool formats are made of, and what breaks parsers."""
NUMBERS = [
    *("0", "-0", "-1", "1.5", "1e999", "-1e308", "1e-400", "NaN", "Infinity", "-Infinity", "007", "1_000"),
    *("9" * 99, "9" * 101, "9" * 3999, "9" * 4300, "-" + "9" * 4301, "9" * 20_000, f"1.{'3' * 5000}"),
]
ODD_TEXTS = [
    *("", " ", "\0", "\ud800", "\udfff", "\x1b[2J", "\ufeff", "\u202e", "a\r\nb", "../../x", "/", "~", "%s", "{x}"),
    *("'\"({`$", "';--", "a" * 5000, "é" * 3000, "NaN", "null", "9" * 5000, "-" * 300, "__class__", "(" * 2000, "*"),
]
TEXTS = st.one_of(st.sampled_from(ODD_TEXTS), st.text(st.characters(), max_size=40))
PLAIN_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def json_texts(leaves: int = 6) -> st.SearchStrategy[str]:
    """JSON values, spelled, among them such as only some parsers take."""
    scalars = st.one_of(
        st.sampled_from(NUMBERS),
        st.integers().map(str),
        st.floats().map(json.dumps),
        TEXTS.map(json.dumps),
        st.sampled_from(["null", "true", "false", '"\\ud800"', '"\\u0000"', "[" * 3000, "[" * 80 + "]" * 80]),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
            st.lists(st.tuples(TEXTS.map(json.dumps), inner), max_size=3).map(_table),
        ),
        max_leaves=leaves,
    )


def _table(items: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items) + "}"


@st.composite
def call_texts(draw: st.DrawFn, names: list[str], arguments: list[str]) -> str:
    """A call in one of the formats, of a tool that may be one of ``names``, with odd values."""
    name = draw(st.one_of(st.sampled_from(names), TEXTS))
    keys = st.one_of(st.sampled_from(arguments or ["x"]), TEXTS)
    table = _table(draw(st.lists(st.tuples(keys.map(json.dumps), json_texts()), max_size=3)))
    written = f'{{"name": {json.dumps(name)}, "arguments": {table}}}'
    key, value = draw(keys), draw(st.one_of(json_texts(), TEXTS))
    return draw(
        st.sampled_from(
            [
                f"<tool_call>\n{written}\n</tool_call>",
                f"<tool_call>{written}</tool_call><tool_call>{written}</tool_call>",
                f"<tool_call>\n<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>",
                f"<|python_tag|>{written.replace('arguments', 'parameters')}",
                f"[TOOL_CALLS]{name}[ARGS]{table}",
                f"[TOOL_CALLS][{written}]",
                f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{table}<|call|>",
                f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{table}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                f"<think>{value}</think>{name} {value}",
                f"{name} {value}",
                f"{name}({key}={value})",
                written,
            ]
        )
    )


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text of which pieces were cut, doubled or replaced."""
    text = draw(texts)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), st.sampled_from(MARKS), TEXTS))
        text = text[:start] + piece + text[end:]
    return text


def action_texts(names: list[str], arguments: list[str]) -> st.SearchStrategy[str]:
    """Anything that a model could write where tools of these names are on offer."""
    pieces = st.one_of(st.sampled_from(MARKS), st.sampled_from(names), TEXTS, json_texts(2))
    return st.one_of(
        st.text(st.characters(), max_size=60),
        st.lists(pieces, max_size=10).map("".join),
        call_texts(names, arguments),
        damaged(call_texts(names, arguments)),
    )


FORMATS = ["", *TOOL_FORMATS]
