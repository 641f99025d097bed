"""Chat templates in the forms of the families whose models call tools: short, but the marks and their places are theirs."""

# ruff: noqa: E501

import copy
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tests.helpers import models
from turngate.agents import tiny

_CHATML_SYSTEM = """
{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}{% endif %}
{%- if tools or system %}{{ '<|im_start|>system\n' + (system or '') }}
{%- if tools %}{{ '\n<tools>' }}{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}{{ '\n</tools>\n' }}HOW{% endif %}
{{- '<|im_end|>\n' }}{% endif %}"""
_CHATML_REST = """
{%- for message in messages %}
{%- if message.role == 'assistant' %}{{ '<|im_start|>assistant\n' + message.content }}
{%- for call in message.tool_calls %}CALL{% endfor %}{{ '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}
{%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
{%- else %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' + ('<think>\n\n</think>\n\n' if enable_thinking is false else '') }}{% endif %}"""
_HERMES_CALL = (
    """{{ '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) """
    """+ '}\n</tool_call>' }}"""
)
_CODER_CALL = (
    """{{ '\n<tool_call>\n<function=' + call.function.name + '>\n' }}{% for name, value in call.function.arguments.items() %}"""
    """{{ '<parameter=' + name + '>\n' + value + '\n</parameter>\n' }}{% endfor %}{{ '</function>\n</tool_call>' }}"""
)


def _chatml(how: str, call: str) -> str:
    return _CHATML_SYSTEM.replace("HOW", how) + _CHATML_REST.replace("CALL", call)


QWEN = _chatml("Write <tool_call>{name, arguments}</tool_call>.", _HERMES_CALL)
QWEN_CODER = _chatml("Write <tool_call><function=NAME> and <parameter=KEY>.", _CODER_CALL)
# as Qwen 3's: a turn that comes last shows an empty thought, which it loses when another message follows
QWEN3 = QWEN.replace(
    "'<|im_start|>assistant\n' + message.content }}",
    "'<|im_start|>assistant\n' + ('<think>\n\n</think>\n\n' if loop.last else '') + message.content }}",
)
LLAMA3 = """
{{- '<|begin_of_text|>' }}{% for message in messages %}
{%- if message.role == 'tool' %}{{ HEAD.replace('ROLE', 'ipython') + (message.content | tojson) + '<|eot_id|>' }}
{%- elif message.tool_calls %}{{ HEAD.replace('ROLE', 'assistant') }}
{{- '{"name": "' + message.tool_calls[0].function.name + '", "parameters": ' }}
{{- (message.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}
{%- else %}{{ HEAD.replace('ROLE', message.role) }}
{%- if tools and loop.first %}{{ 'Environment: ipython. Write {"name": NAME, "parameters": ARGUMENTS}.' }}
{%- for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}{{ '\n' }}{% endif %}
{{- message.content + '<|eot_id|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ HEAD.replace('ROLE', 'assistant') }}{% endif %}""".replace(
    "HEAD", r"'<|start_header_id|>ROLE<|end_header_id|>\n\n'"
)
MISTRAL = """
{{- '<s>' }}{% for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.first %}{{ '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}{% if message.tool_calls[0].id | length != 9 %}{{ raise_exception('an id has 9 letters') }}{% endif %}
{{- '[TOOL_CALLS] [{"name": "' + message.tool_calls[0].function.name + '", "arguments": ' }}
{{- (message.tool_calls[0].function.arguments | tojson) + '}]</s>' }}
{%- elif message.role == 'assistant' %}{{ message.content + '</s>' }}
{%- elif message.role == 'tool' %}{{ '[TOOL_RESULTS] ' + message.content + '[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('only user, assistant and tool') }}{% endif %}{% endfor %}"""
MISTRAL_11 = MISTRAL.replace(
    """'[TOOL_CALLS] [{"name": "' + message.tool_calls[0].function.name + '", "arguments": ' }}""",
    """'[TOOL_CALLS]' + message.tool_calls[0].function.name + '[ARGS]' }}""",
).replace("'}]</s>'", "'</s>'")
DEEPSEEK = """
{{- '<｜begin▁of▁sentence｜>' }}{% if tools %}{{ (tools | tojson) + ' <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '<｜User｜>' + message.content }}{% endif %}
{%- if message.role == 'system' %}{{ message.content }}{% endif %}
{%- if message.role == 'assistant' %}{{ '<｜Assistant｜>' + message.content }}
{%- for call in message.tool_calls %}{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + call.function.name
+ '<｜tool▁sep｜>' + call.function.arguments + '<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}{% endfor %}
{{- '<｜end▁of▁sentence｜>' }}{% endif %}
{%- if message.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"""

# The message of a turn ends with <|call|> if it calls, with <|return|> if it is the last of all, else with <|end|>.
HARMONY = """
{{- '<|start|>system<|message|>Channels: analysis, commentary, final.<|end|>' }}
{%- if tools %}{{ '<|start|>developer<|message|># Tools' }}{% for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}{{ '<|end|>' }}{% endif %}
{%- set last = namespace(name=none) %}{% for message in messages %}
{%- if message.role == 'tool' %}{% if not last.name %}{{ raise_exception('an answer needs a call') }}{% endif %}
{{- '<|start|>functions.' + last.name + ' to=assistant<|channel|>commentary<|message|>' + (message.content | tojson) + '<|end|>' }}
{%- elif message.tool_calls %}{% set last.name = message.tool_calls[0].function.name %}
{{- '<|start|>assistant to=functions.' + last.name + '<|channel|>commentary json<|message|>' }}
{{- (message.tool_calls[0].function.arguments | tojson) + '<|call|>' }}
{%- elif message.role == 'assistant' %}{{ '<|start|>assistant<|channel|>final<|message|>' + message.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- else %}{{ '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
GEMMA = """
{{- '<bos>' }}{% for message in messages %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and assistant take turns') }}{% endif %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' + message.content + '<end_of_turn>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"""


class Family(NamedTuple):
    """A template, and what a tokenizer of such models holds beside words."""

    template: str
    eos: str
    """The tokenizer's own."""
    special: list[str]
    """Control tokens that the tokenizer calls special."""
    added: Sequence[str] = ()
    """Control tokens that it does not."""
    tool_format: str = ""
    ends: frozenset[str] = frozenset()
    """The tokens that end a turn, where they are more than ``eos``."""


_CHATML = ["<|im_start|>", "<|im_end|>"]
_BLOCK = ["<tool_call>", "</tool_call>"]
_MISTRAL = ["<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"]
_MISTRAL += ["[TOOL_RESULTS]", "[/TOOL_RESULTS]"]
_HEADER = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>"]
_HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"]
_DEEPSEEK = ["<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>"]
_DEEPSEEK += ["<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"]
_RESPONSE = ["<tool_response>", "</tool_response>", "<think>", "</think>"]
FAMILIES = {
    "hermes": Family(QWEN, "<|im_end|>", _CHATML, _BLOCK, "hermes"),
    "qwen3": Family(QWEN3, "<|im_end|>", _CHATML, [*_BLOCK, *_RESPONSE], "hermes"),
    "qwen_coder": Family(QWEN_CODER, "<|im_end|>", _CHATML, [*_BLOCK, *_RESPONSE], "qwen_coder"),
    "llama3": Family(
        LLAMA3, "<|eot_id|>", ["<|begin_of_text|>", *_HEADER], [], "llama3", frozenset({"<|eot_id|>", "<|eom_id|>"})
    ),
    "mistral": Family(MISTRAL, "</s>", _MISTRAL, [], "mistral"),
    "mistral_11": Family(MISTRAL_11, "</s>", [*_MISTRAL, "[ARGS]"], [], "mistral_11"),
    "deepseek": Family(
        DEEPSEEK, "<｜end▁of▁sentence｜>", ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"], _DEEPSEEK, "deepseek"
    ),
    "harmony": Family(HARMONY, "<|return|>", _HARMONY, [], "harmony", frozenset({"<|return|>", "<|call|>"})),
    "gemma": Family(
        GEMMA,
        "<eos>",
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
        ["<b>", "\n\n"],
        "",
        frozenset({"<eos>", "<end_of_turn>"}),
    ),
}
CALLING = [name for name, family in FAMILIES.items() if family.tool_format]


@cache
def _words():
    return tiny.train_tokenizer(models.TEXTS, vocabulary=300)


def tokenizer(family: str):
    """A tokenizer of that family's template."""
    about = FAMILIES[family]
    made = copy.deepcopy(_words())
    made.add_special_tokens({"additional_special_tokens": about.special})
    made.add_tokens(list(about.added))
    made.eos_token = about.eos
    made.chat_template = about.template
    return made
