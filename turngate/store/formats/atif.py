"""Harbor's Agent Trajectory Interchange Format, ATIF-v1.0 to ATIF-v1.8, in both directions.

A document is an episode: steps of the system, of the user and of the agent; the agent's have calls, the observation
that came back, token ids and log-probabilities. ATIF has no reward, no task and no gates. Ours stand in
``extra["turngate"]`` of the document and of its steps, so that what turngate wrote is read back unchanged; what the
standard fields say is not repeated there, so that an edit of them counts. A value that JSON lacks (NaN, infinity) is
written ``{"turngate:float": "nan"}`` there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turngate.store.codecs import Row
from turngate.store.formats.atif_extra import EXTRA, KEY, read_step, read_whole, strict, write_step, write_whole
from turngate.store.formats.chat_messages import before_calls, fact_of, observation_text, without_thought
from turngate.store.formats.fields import MAX_MESSAGES, BadRecord, Fields, Plain
from turngate.store.formats.read_episode import KnownTokens, ReadEpisode, Sampled, episode_of
from turngate.types import Trajectory, Turn

WRITTEN = "ATIF-v1.7"
"""The version that is written: the oldest that has a ``trajectory_id``."""
NEWEST = (1, 8)
_VERSION = re.compile(r"ATIF-v(\d+)\.(\d+)")


# --- write -----------------------------------------------------------------------------------------------------------


def document(
    row: Row, step: int, *, agent: str, version: str, system: str = "", tools: Plain = None
) -> dict[str, Plain]:
    """An episode as an ATIF document. ``agent`` and its ``version`` name what played it."""
    trajectory = row.trajectory
    steps = [*_opening(trajectory, system)]
    seen: list[int] = []
    for number, turn in enumerate(trajectory.turns):
        following = trajectory.turns[number + 1] if number + 1 < len(trajectory.turns) else None
        steps.append(_agent(turn, following, seen))
        seen += [*turn.context_ids.tolist(), *turn.completion.ids_K.tolist()]
    told = fact_of(trajectory, "tools") or tools
    return {
        "schema_version": WRITTEN,
        "trajectory_id": trajectory.id,
        "agent": {"name": agent, "version": version, **({"tool_definitions": told} if told else {})},
        "steps": [{"step_id": place, **one} for place, one in enumerate(steps, 1)],
        "extra": {KEY: write_whole(row, step)},
    }


def _opening(trajectory: Trajectory, system: str) -> list[dict[str, Plain]]:
    told = fact_of(trajectory, "system_message") or system
    rows = [{"source": "system", "message": str(told)}] if told else []
    if not trajectory.turns:
        return [*rows, {"source": "user", "message": trajectory.task.prompt}]
    return [*rows, {"source": "user", "message": observation_text(trajectory.turns[0], hints=True)}]


def _agent(turn: Turn, following: Turn | None, seen: Sequence[int]) -> dict[str, Plain]:
    """A turn as a step. ``seen``: the tokens before it; ``following``: the turn whose observation came back."""
    said, calls = turn.completion, turn.action.calls
    step: dict[str, Plain] = {"source": "agent", "message": without_thought(before_calls(turn.action))}
    if turn.action.thought:
        step["reasoning_content"] = turn.action.thought
    if calls:
        step["tool_calls"] = [
            {"tool_call_id": f"call{n}", "function_name": call.name, "arguments": strict(dict(call.arguments))}
            for n, call in enumerate(calls)
        ]
    if following is not None:
        result = {"content": observation_text(following, hints=True)}
        step["observation"] = {"results": [{"source_call_id": f"call{len(calls) - 1}", **result} if calls else result]}
    context, own = turn.context_ids.tolist(), said.ids_K.tolist()
    if context or own:
        step["metrics"] = {
            "prompt_tokens": len(seen) + len(context),
            "completion_tokens": len(own),
            "prompt_token_ids": [*seen, *context],
            "completion_token_ids": own,
        }
        if np.isfinite(said.logprobs_K).all():
            step["metrics"]["logprobs"] = said.logprobs_K.tolist()
    step["extra"] = {KEY: write_step(turn, step["message"])}
    return step


# --- read ------------------------------------------------------------------------------------------------------------


def episodes(record: Plain) -> list[ReadEpisode]:
    """The episode of one document. Raises BadRecord."""
    fields = Fields(record)
    _check_version(fields.text("schema_version"))
    steps = [Fields(one, f"step {number}") for number, one in enumerate(fields.list("steps"), 1)]
    if len(steps) > MAX_MESSAGES:
        raise BadRecord(f"it has {len(steps)} steps; at most {MAX_MESSAGES} are taken")
    if fields.has("subagent_trajectories") or fields.has("continued_trajectory_ref"):
        raise BadRecord("it has subagents or a continuation, and an episode is one conversation; split it first")
    own = fields.table("extra").any(KEY)
    agent = fields.table("agent")
    if own is not None:
        return [_own(steps, Fields(own, EXTRA))]
    messages, sampled = _conversation(steps)
    fields.ignore("final_metrics", "notes", "trajectory_id", "extra")
    found = episode_of(
        messages,
        task_id=fields.text("session_id", ""),
        env_id=f"atif/{agent.text('name', 'agent')}",
        tools=agent.any("tool_definitions"),
        sampled=sampled,
    )
    return [replace(found, unread=fields.unread)]


def is_own(record: Plain) -> bool:
    """Whether turngate wrote the document."""
    extra = record.get("extra") if isinstance(record, dict) else None
    return isinstance(extra, dict) and KEY in extra


def _check_version(text: str) -> None:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise BadRecord(f"schema_version is '{text:.40}', which is not ATIF; expected ATIF-v1.0 to ATIF-v1.8")
    if (int(found[1]), int(found[2])) > NEWEST or int(found[1]) < 1:
        raise BadRecord(
            f"schema_version is '{text}'; this turngate reads ATIF-v1.0 to ATIF-v1.8, a newer one may read it"
        )


def _own(steps: Sequence[Fields], whole: Fields) -> ReadEpisode:
    agents = [step for step in steps if step.text("source") == "agent"]
    observations = [_text(step) for step in steps if step.text("source") == "user"][:1]
    observations += ["".join(text for text, _ in _results(step)) for step in agents[:-1]]
    seen = np.zeros(0, np.int32)
    turns = []
    for number, (step, text) in enumerate(zip(agents, observations, strict=True) if agents else ()):
        metrics = step.table("metrics")
        prompt, said = metrics.ids("prompt_token_ids"), metrics.ids("completion_token_ids")
        prompt, said = seen if prompt is None else prompt, np.zeros(0, np.int32) if said is None else said
        if not np.array_equal(prompt[: len(seen)], seen):
            raise BadRecord(f"the prompt_token_ids of turn {number} do not begin with the turns before it")
        context, seen = prompt[len(seen) :], np.concatenate([prompt, said])
        extra = step.table("extra").table(KEY)
        calls = [Fields(one, "a call") for one in step.list("tool_calls", ())]
        turns.append(
            read_step(
                extra,
                observed=text,
                message=_text(step),
                thought=step.text("reasoning_content", ""),
                calls=[(call.text("function_name"), call.table("arguments").plain) for call in calls],
                context=context,
                said=said,
                logprobs=metrics.numbers("logprobs"),
            )
        )
    trajectory, score, place = read_whole(whole, tuple(turns))
    texts = all(not len(turn.completion.ids_K) for turn in turns)
    known = all(np.isfinite(turn.completion.logprobs_K).all() for turn in turns)
    tokens = KnownTokens.NONE if texts else KnownTokens.SAMPLED if known else KnownTokens.IDS
    return ReadEpisode(trajectory=trajectory, score=score, tokens=tokens, place=place)


def _conversation(steps: Sequence[Fields]) -> tuple[list[Plain], list[Sampled] | None]:
    """The steps as messages, and the tokens of the agent's, if all of them have any."""
    messages: list[Plain] = []
    sampled: list[Sampled | None] = []
    for step in steps:
        source = step.text("source")
        if source not in ("system", "user", "agent"):
            raise BadRecord(f"a step has the source '{source:.40}'; ATIF knows system, user and agent")
        calls = [Fields(one, "a call") for one in step.list("tool_calls", ())]
        said: dict[str, Plain] = {"role": "assistant" if source == "agent" else source, "content": step.any("message")}
        if source == "agent":
            said["reasoning_content"] = step.text("reasoning_content", "")
            said["tool_calls"] = [
                {"name": call.text("function_name"), "arguments": call.table("arguments").plain} for call in calls
            ]
            sampled.append(_tokens(step.table("metrics")))
        elif source == "system" and messages:
            said["role"] = "user"  # a note amid the conversation is something that the agent is told
        messages.append(said)
        messages += [{"role": "tool" if calls else "user", "content": text} for text, _ in _results(step)]
    whole = [one for one in sampled if one is not None]
    return messages, whole if len(whole) == len(sampled) else None


def _tokens(metrics: Fields) -> Sampled | None:
    prompt, said = metrics.ids("prompt_token_ids"), metrics.ids("completion_token_ids")
    return (
        None
        if prompt is None or said is None
        else Sampled(prompt=prompt, said=said, logprobs=metrics.numbers("logprobs"))
    )


def _results(step: Fields) -> list[tuple[Plain, str]]:
    """(content, id of the call) of each result that came back."""
    results = [Fields(one, "a result") for one in step.table("observation").list("results", ())]
    return [(one.any("content") or "", one.text("source_call_id", "")) for one in results]


def _text(step: Fields) -> str:
    return step.text("message", "")
