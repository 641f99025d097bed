"""Saved results of verifiers: ``results.jsonl`` of ``vf-eval`` (0.1), and ``traces.jsonl`` of its version-1 API.

    {"example_id": 0, "prompt": […], "completion": […], "reward": 1.0, "metrics": {…}, "is_truncated": …, …}
    {"traces": [{"version": 1, "task": {…}, "nodes": [{"parent": …, "message": {…}, "token_ids": …}, …],
      "rewards": {…}, …}], …}

``answer``, ``info``, ``state`` and the data of a task are left behind: they are private to it. Token ids and
log-probabilities are read where a client recorded them: of results in the column ``trajectory``, of traces in the
nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from turngate.store.formats.fields import BadRecord, Fields, Plain
from turngate.store.formats.read_episode import ReadEpisode, Sampled, episode_of, facts_of
from turngate.types import Ending

VERSION = 1
_PRIVATE = "answer info timing stop_condition is_completed token_usage error_chain long_error_chain id state".split()


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episodes of one line. Raises BadRecord."""
    fields = Fields(record)
    if fields.has("traces"):
        return [_trace(Fields(one, f"trace {number}")) for number, one in enumerate(fields.list("traces"))]
    return [_result(fields)]


# --- results.jsonl ---------------------------------------------------------------------------------------------------


def _result(fields: Fields) -> ReadEpisode:
    fields.ignore(*_PRIVATE)
    error = fields.any("error")
    completion = fields.any("completion")
    if not completion:
        raise BadRecord("it has no completion" + (f": {_error(error)}" if error is not None else ""))
    metrics = fields.table("metrics").plain
    fields.ignore(*metrics)  # each is repeated beside them
    sampled = [_tokens(Fields(one, "a step").table("tokens")) for one in fields.list("trajectory", ())]
    whole = [one for one in sampled if one is not None]
    found = episode_of(
        [*_messages(fields.any("prompt"), "user"), *_messages(completion, "assistant")],
        task_id=fields.text("example_id"),
        env_id=f"verifiers/{fields.text('env_id' if fields.has('env_id') else 'task', 'env')}",
        reward=fields.number("reward"),
        facts=facts_of(metrics, "verifier"),
        tools=fields.any("tool_defs"),
        ending=Ending.MAX_TURNS
        if fields.flag("is_truncated")
        else Ending.FINISHED
        if error is None
        else Ending.ENV_ERROR,
        error="" if error is None else _error(error),
        sampled=whole if sampled and len(whole) == len(sampled) else None,
    )
    return replace(found, unread=fields.unread)


def _tokens(step: Fields) -> Sampled | None:
    prompt, said = step.ids("prompt_ids"), step.ids("completion_ids")
    if prompt is None or said is None:
        return None
    return Sampled(prompt=prompt, said=said, logprobs=step.numbers("completion_logprobs"))


def _messages(value: Plain, role: str) -> Sequence[Plain]:
    if value is None or isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    if not isinstance(value, list):
        raise BadRecord(f"its {'prompt' if role == 'user' else 'completion'} is {value!r:.40}, expected messages")
    return value


def _error(error: Plain) -> str:
    told = error.get("error_chain_str") or error.get("message") if isinstance(error, Mapping) else error
    return str(told)[:2000]


# --- traces.jsonl ----------------------------------------------------------------------------------------------------


def _trace(fields: Fields) -> ReadEpisode:
    version = fields.whole("version", 0)
    if version != VERSION:
        raise BadRecord(f"its trace has version {version}, this turngate reads {VERSION}; a newer turngate may read it")
    nodes = [Fields(one, f"node {number}") for number, one in enumerate(fields.list("nodes"))]
    path = _path(nodes)
    rewards = [Fields(one, "a reward") for one in fields.table("rewards").plain.values() if one is not None]
    paid = [(one.number("score"), 1.0 if (weight := one.number("weight")) is None else weight) for one in rewards]
    task = fields.table("task")
    names = list(fields.table("rewards").plain)
    scores = {name: (one or {}).get("score") for name, one in fields.table("rewards").plain.items()}
    errors, ok = fields.list("errors", ()), fields.flag("ok", True)
    found = episode_of(
        [node.any("message") for node in path],
        task_id=task.text("key" if task.has("key") else "hash", ""),
        env_id=f"verifiers/{task.text('type', 'task')}",
        reward=sum((score or 0.0) * weight for score, weight in paid) if names and len(paid) == len(names) else None,
        facts=[*facts_of(scores, "verifier"), *facts_of(fields.table("metrics").plain, "verifier")],
        tools=fields.any("tools"),
        ending=Ending.FINISHED if ok or not errors else Ending.ENV_ERROR,
        error="" if not errors else _error(errors[-1]),
        sampled=_spans(path),
    )
    return replace(found, unread=())


def _path(nodes: Sequence[Fields]) -> list[Fields]:
    """The one conversation of a trace, from its root to its leaf. Raises BadRecord for several."""
    parents = [node.whole("parent", -1) for node in nodes]
    if any(not -1 <= parent < number for number, parent in enumerate(parents)):
        raise BadRecord("a node of its trace has a parent that does not come before it")
    leaves = sorted(set(range(len(nodes))) - set(parents))
    if len(leaves) != 1:
        raise BadRecord(
            f"its trace has {len(leaves)} branches, because its history was rewritten or agents ran side by side, and "
            "an episode is one conversation"
        )
    path, at = [], leaves[0]
    while at >= 0:
        path.append(nodes[at])
        at = parents[at]
    return path[::-1]


def _spans(path: Sequence[Fields]) -> list[Sampled] | None:
    """The tokens of each message of the assistant: a node has those that it adds, and says which were sampled."""
    seen = np.zeros(0, np.int32)
    found = []
    for node in path:
        ids, mask = node.ids("token_ids"), node.list("mask", ())
        if ids is None or not len(ids):
            return None
        if len(mask) != len(ids) or not all(type(one) is bool for one in mask):
            raise BadRecord(f"a node has {len(ids)} tokens and a mask of {len(mask)}")
        marks = np.array(mask, np.bool_)
        own = int(marks.sum())
        if Fields(node.any("message"), "a message").text("role") == "assistant":
            if not own or not marks[len(ids) - own :].all():
                return None
            prompt = np.concatenate([seen, ids[: len(ids) - own]])
            found.append(Sampled(prompt=prompt, said=ids[len(ids) - own :], logprobs=node.numbers("logprobs")))
        seen = np.concatenate([seen, ids])
    return found
