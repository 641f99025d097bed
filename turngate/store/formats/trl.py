"""TRL's conversational rows: ``messages``, ``prompt`` with ``completion``, preferences, and what GRPO logs.

    {"messages": [...]}                                language modelling
    {"prompt": [...], "completion": [...]}             with "label": true or false, that of unpaired preferences
    {"prompt": [...], "chosen": [...], "rejected": [...]}    two episodes, the first a success and the second none
    {"prompt": …, "completion": …, "step": …, "NAME": NUMBER, …, "advantage": NUMBER}    as GRPO logs completions

GRPO logs completions as Parquet files, which are read too. Of a logged completion every column with a number but
``step`` and ``advantage`` is a reward function; one column is the reward, several are evidence, and a rubric has to say
how they add up. ``prompt_ids``, ``completion_ids`` and ``logprobs`` of rollout functions are read where they are there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from turngate.store.formats.fields import BadRecord, Fields, Plain
from turngate.store.formats.read_episode import ReadEpisode, Sampled, episode_of
from turngate.types import Evidence

_NO_REWARDS = ("step", "advantage", "advantages")


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episodes of one row. Raises BadRecord."""
    fields = Fields(record)
    task = fields.text("task" if fields.has("task") else "id", "")
    tools = fields.any("tools")
    fields.ignore("turngate", "chat_template_kwargs", *_NO_REWARDS)
    if fields.has("messages"):
        found = [episode_of(fields.list("messages"), task_id=task, tools=tools)]
    elif fields.has("chosen"):
        found = [
            episode_of(_joined(fields, key), task_id=task, tools=tools, reward=reward)
            for key, reward in (("chosen", 1.0), ("rejected", 0.0))
        ]
    elif fields.has("completion"):
        found = [_completed(fields, task, tools)]
    else:
        raise BadRecord("it has none of 'messages', 'completion' and 'chosen', so it is no conversational row of TRL")
    return [replace(one, unread=fields.unread) for one in found]


def _completed(fields: Fields, task: str, tools: Plain) -> ReadEpisode:
    messages, sampled = _joined(fields, "completion"), _sampled(fields)
    if fields.has("label"):
        return episode_of(messages, task_id=task, tools=tools, reward=float(fields.flag("label")), sampled=sampled)
    rewards = {
        name: float(value)
        for name in fields.unread
        if type(value := fields.peek(name)) in (int, float) and math.isfinite(value)  # NaN: it could not be scored
    }
    fields.ignore(*rewards)
    facts = [Evidence(name=name, value=number, by="verifier") for name, number in rewards.items()]
    (reward,) = rewards.values() if len(rewards) == 1 else (None,)
    return episode_of(messages, task_id=task, tools=tools, reward=reward, facts=facts, sampled=sampled)


def _joined(fields: Fields, key: str) -> list[Plain]:
    """The messages of the prompt and of one continuation; ``chosen`` may repeat the prompt (implicit prompts)."""
    prompt = _messages(fields.any("prompt"), "user", "prompt") if fields.has("prompt") else []
    return [*prompt, *_messages(fields.any(key), "assistant", key)]


def _messages(value: Plain, role: str, key: str) -> list[Plain]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, Mapping):
        return [value]
    if not isinstance(value, Sequence):
        raise BadRecord(f"field '{key}' is {value!r:.40}, expected messages or a text")
    return list(value)


def _sampled(fields: Fields) -> list[Sampled] | None:
    prompt, said = fields.ids("prompt_ids"), fields.ids("completion_ids")
    logprobs = fields.numbers("logprobs")
    if prompt is None or said is None:
        return None
    return [Sampled(prompt=prompt, said=said, logprobs=logprobs)]
