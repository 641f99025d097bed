"""The tool formats in which models write calls, one file each."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.tools.formats.base import ToolFormat
from turngate.tools.formats.command_line import CommandLine
from turngate.tools.formats.deepseek import DeepSeek
from turngate.tools.formats.harmony import Harmony
from turngate.tools.formats.hermes import Hermes
from turngate.tools.formats.llama3 import Llama3
from turngate.tools.formats.mistral import Mistral, Mistral11
from turngate.tools.formats.qwen_coder import QwenCoder

TOOL_FORMATS: Mapping[str, ToolFormat] = {
    one.name: one
    for one in (Harmony(), DeepSeek(), Mistral11(), Mistral(), QwenCoder(), Hermes(), Llama3(), CommandLine())
}
"""By name. Where two begin at the same place, the first of them is taken: its marks are more specific."""


def of_template(template: str) -> str:
    """The name of the tool format in which a chat template frames calls; "" if it shows none of them."""
    for one in TOOL_FORMATS.values():
        if any(all(mark in template for mark in marks) for marks in one.marks):
            return one.name
    return ""
