"""Chat templates in the forms of the families whose models call tools: short, but the marks and their places are theirs."""

# ruff: noqa: E501

import copy

from tests.helpers import models
from turngate.agents import tiny
from turngate.tools.notations import NOTATIONS

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
LLAMA3 = """
{{- '<|begin|>' }}{% for message in messages %}
{%- if message.role == 'tool' %}{{ '<|start|>ipython<|stop|>\n\n' + (message.content | tojson) + '<|eot|>' }}
{%- elif message.tool_calls %}{{ '<|start|>assistant<|stop|>\n\n' }}
{{- '{"name": "' + message.tool_calls[0].function.name + '", "parameters": {}}' + '<|eot|>' }}
{%- else %}{{ '<|start|>' + message.role + '<|stop|>\n\n' }}
{%- if tools and loop.first %}{{ 'Environment: ipython. Write {"name": NAME, "parameters": ARGUMENTS}.' }}
{%- for tool in tools %}{{ '\n' + (tool | tojson) }}{% endfor %}{{ '\n' }}{% endif %}
{{- message.content + '<|eot|>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}"""
MISTRAL = """
{{- '<s>' }}{% for message in messages %}
{%- if message.role == 'user' %}
{%- if tools and loop.first %}{{ '[AVAILABLE_TOOLS] ' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}{% if message.tool_calls[0].id | length != 9 %}{{ raise_exception('an id has 9 letters') }}{% endif %}
{{- '[TOOL_CALLS] [{"name": "' + message.tool_calls[0].function.name + '", "arguments": {}}]</s>' }}
{%- elif message.role == 'assistant' %}{{ message.content + '</s>' }}
{%- elif message.role == 'tool' %}{{ '[TOOL_RESULTS] ' + message.content + '[/TOOL_RESULTS]' }}
{%- else %}{{ raise_exception('only user, assistant and tool') }}{% endif %}{% endfor %}"""
MISTRAL_11 = MISTRAL.replace(
    """'[TOOL_CALLS] [{"name": "' + message.tool_calls[0].function.name + '", "arguments": {}}]</s>'""",
    """'[TOOL_CALLS]' + message.tool_calls[0].function.name + '[ARGS]{}</s>'""",
)
DEEPSEEK = """
{{- '<bos>' }}{% if tools %}{{ (tools | tojson) + ' <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '<｜User｜>' + message.content }}{% endif %}
{%- if message.role == 'system' %}{{ message.content }}{% endif %}
{%- if message.role == 'assistant' %}{{ '<｜Assistant｜>' + message.content }}
{%- for call in message.tool_calls %}{{ '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + call.function.name
+ '<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>' }}{% endfor %}{{ '<｜end｜>' }}{% endif %}
{%- if message.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' + message.content + '<｜tool▁output▁end｜>' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"""

_CHATML = ["<|im_start|>", "<|im_end|>"]
FAMILIES = {
    "hermes": (QWEN, "<|im_end|>", _CHATML),
    "qwen_coder": (QWEN_CODER, "<|im_end|>", _CHATML),
    "llama3": (LLAMA3, "<|eot|>", ["<|begin|>", "<|start|>", "<|stop|>", "<|eot|>"]),
    "mistral": (
        MISTRAL,
        "</s>",
        ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"],
    ),
    "mistral_11": (
        MISTRAL_11,
        "</s>",
        ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[ARGS]"],
    ),
    "deepseek": (
        DEEPSEEK,
        "<｜end｜>",
        ["<bos>", "<｜User｜>", "<｜Assistant｜>", "<｜end｜>", "<｜tool▁call▁begin｜>"],
    ),
}
"""Notation → template, end of a turn, control tokens."""


def tokenizer(family: str):
    """A tokenizer of that family's template."""
    template, end, special = FAMILIES[family]
    made = tiny.train_tokenizer(models.TEXTS, vocabulary=300)
    made.add_special_tokens({"additional_special_tokens": special})
    made.add_tokens([mark for mark in NOTATIONS[family].control if mark not in special])
    made.eos_token = end
    made.chat_template = template
    return copy.deepcopy(made)
