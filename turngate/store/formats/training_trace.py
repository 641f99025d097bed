"""OpenEnv's ``TrainingTrace``, schema_version 1: the calls of a model, with the tokens that the engine saw and sampled.

    {"schema_version": 1, "turns": [{"node_id": …, "prompt_token_ids": […], "completion_token_ids": […],
      "per_token_logps": […], "loss_mask": […], "request": {"messages": …}, "response": {"choices": …}, …}, …]}

It has no reward, as the reward comes from the environment's own ``verify()``, and no task: traces whose first requests
are alike are siblings. Tokens whose ``loss_mask`` is 0 count as context.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turngate.store.formats.fields import MAX_MESSAGES, BadRecord, Fields, Plain
from turngate.store.formats.read_episode import ReadEpisode, Sampled, episode_of
from turngate.types import Source, Turn

VERSION = 1


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episode of one trace. Raises BadRecord."""
    fields = Fields(record)
    version = fields.whole("schema_version", VERSION)
    if version != VERSION:
        raise BadRecord(f"schema_version is {version}, this turngate reads {VERSION}; a newer turngate may read it")
    turns = [Fields(one, f"turn {number}") for number, one in enumerate(fields.list("turns"))]
    if not turns or len(turns) > MAX_MESSAGES:
        raise BadRecord(f"it has {len(turns)} turns, expected 1 to {MAX_MESSAGES}")
    messages: list[Plain] = []
    sampled: list[Sampled] = []
    for number, turn in enumerate(turns):
        asked, said = turn.table("request").list("messages", ()), _reply(turn, number)
        if len(asked) < len(messages):
            raise BadRecord(
                f"the request of turn {number} has fewer messages than were said before it: history was cut"
            )
        messages += [*asked[len(messages) :], said]
        sampled.append(_tokens(turn, number))
    tools = turns[0].table("request").any("tools")
    found = episode_of(messages, tools=tools, sampled=sampled)
    masks = [turn.any("loss_mask") for turn in turns]
    trajectory = found.trajectory
    if not found.note:
        marked = tuple(map(_masked, trajectory.turns, sampled, masks))
        trajectory = replace(trajectory, turns=marked)
    return [replace(found, trajectory=trajectory, unread=fields.unread)]


def _reply(turn: Fields, number: int) -> Plain:
    choices = turn.table("response").list("choices", ())
    message = Fields(choices[0], f"the reply of turn {number}").any("message") if choices else None
    if message is None:
        raise BadRecord(f"turn {number} has tokens and no text (response.choices), so nobody can read it")
    return {"role": "assistant", **Fields(message, f"the reply of turn {number}").plain}


def _tokens(turn: Fields, number: int) -> Sampled:
    prompt, said = turn.ids("prompt_token_ids"), turn.ids("completion_token_ids")
    logprobs, mask = turn.numbers("per_token_logps"), turn.any("loss_mask")
    if prompt is None or said is None or logprobs is None:
        raise BadRecord(f"turn {number} lacks prompt_token_ids, completion_token_ids or per_token_logps")
    whole = (
        isinstance(mask, list)
        and len(mask) == len(prompt) + len(said)
        and all(type(one) is int and one in (0, 1) for one in mask)
    )
    if len(logprobs) != len(said) or not whole:
        raise BadRecord(
            f"turn {number} has {len(said)} tokens, {len(logprobs)} log-probabilities and a loss_mask that must have "
            f"one 0 or 1 for each of {len(prompt)} + {len(said)} tokens"
        )
    return Sampled(prompt=prompt, said=said, logprobs=logprobs)


def _masked(turn: Turn, one: Sampled, mask: list[int]) -> Turn:
    own = np.array(mask[len(one.prompt) :], np.bool_)
    source = turn.source.copy()
    source[len(turn.context_ids) :] = np.where(own, Source.POLICY, Source.CONTEXT)
    return replace(turn, source=source)
