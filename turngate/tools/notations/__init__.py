"""The notations in which models write calls, one file each."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.tools.notations.base import Notation
from turngate.tools.notations.command_line import CommandLine
from turngate.tools.notations.deepseek import DeepSeek
from turngate.tools.notations.harmony import Harmony
from turngate.tools.notations.hermes import Hermes
from turngate.tools.notations.llama3 import Llama3
from turngate.tools.notations.mistral import Mistral, Mistral11
from turngate.tools.notations.qwen_coder import QwenCoder

NOTATIONS: Mapping[str, Notation] = {
    one.name: one
    for one in (Harmony(), DeepSeek(), Mistral11(), Mistral(), QwenCoder(), Hermes(), Llama3(), CommandLine())
}
"""By name. Where two begin at the same place, the first of them is meant: its marks say more."""


def of_template(template: str) -> str:
    """The name of the notation in which a chat template frames calls; "" if it shows none of them."""
    for one in NOTATIONS.values():
        if any(all(mark in template for mark in marks) for marks in one.marks):
            return one.name
    return ""
