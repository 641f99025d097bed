"""From chat messages to an episode: the last step of every reader of a foreign format.

A turn is one message of the assistant; the messages before it, since the one before that, are its observation. Words
and calls become one text, the calls in Hermes tool format behind the words, as for the policies that play on a server.
Equal histories are equal states, which is all that a log tells about states.

Facts that are recorded of every episode: ``parsed`` of each turn (whether its calls can be read), ``tool`` of each
call, and ``answer``, the last message of the assistant if it calls nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from turngate.store.formats.chat_messages import AFTER, SYSTEM, TOOLS, parts_of
from turngate.store.formats.fields import MAX_MESSAGES, BadRecord, Fields, Plain
from turngate.tools.formats import TOOL_FORMATS
from turngate.tools.formats.base import dump
from turngate.tools.formats.hermes import BEGIN, END
from turngate.types import (
    ANSWER,
    JSON,
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    FloatArray,
    IntArray,
    Observation,
    RewardEvent,
    Score,
    Source,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    derive_seed,
)

REWARD = "reward"
"""Evidence about a whole episode: its reward according to the log. Also the name of the component in its ledger."""
NO_REWARD = "the log has no reward; score it with turngate rescore"
_NO_IDS, _NO_LOGPROBS = np.zeros(0, np.int32), np.zeros(0, np.float32)


class KnownTokens(StrEnum):
    """How much is known of the tokens of an episode."""

    SAMPLED = "sampled"  # ids and the sampler's log-probabilities
    IDS = "ids"  # ids alone
    TEMPLATE = "template"  # ids that a tokenizer made of the texts here: they were not sampled
    NONE = "none"  # text alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The tokens of one turn as a log tells them: the whole context before it, what was sampled, log-probabilities."""

    prompt: IntArray
    said: IntArray
    logprobs: FloatArray | None


class RecordedPlace(NamedTuple):
    """Where an episode was recorded: step and phase, the group of its siblings, and its number among them."""

    step: int
    phase: str
    group: str
    sibling: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEpisode:
    """An episode that was read: the trajectory (its id is made unique later), its score, and notes.

    ``note``: why tokens that the record has were left out; "" = they were not. ``unread``: fields that were not read.
    ``place``: where an episode that turngate wrote was recorded, which keeps its id; None for any other.
    """

    trajectory: Trajectory
    score: Score
    tokens: KnownTokens = KnownTokens.NONE
    note: str = ""
    unread: tuple[str, ...] = ()
    place: RecordedPlace | None = None


def episode_of(
    messages: Sequence[Plain],
    *,
    task_id: str = "",
    env_id: str = "imported",
    split: str = "train",
    reward: float | None = None,
    facts: Sequence[Evidence] = (),
    tools: JSON = None,
    ending: Ending = Ending.FINISHED,
    error: str = "",
    sampled: Sequence[Sampled] | None = None,
    unread: tuple[str, ...] = (),
) -> ReadEpisode:
    """An episode from messages and what the record says besides. Raises BadRecord.

    ``task_id``: "" = a digest of the prompt, so episodes that begin alike are siblings. ``sampled``: the tokens of each
    message of the assistant, in order.
    """
    turns, system, after = _turns(messages)
    prompt = turns[0].observation.text
    task = Task(id=task_id or f"asked-{_digest(system, prompt)}", env_id=env_id, prompt=prompt, split=split)
    told = {SYSTEM: system or None, TOOLS: tools or None, AFTER: after, ANSWER: _answer(turns), REWARD: reward}
    whole = [Evidence(name=name, value=value) for name, value in told.items() if value is not None]
    for fact in facts:
        if fact.turn is not None and not 0 <= fact.turn < len(turns):
            raise BadRecord(f"evidence '{fact.name}' is about turn {fact.turn}, and there are {len(turns)} turns")
    tokens, note = KnownTokens.NONE, ""
    if sampled is not None:
        turns, tokens, note = with_tokens(turns, sampled)
    trajectory = Trajectory(
        id="",
        task=task,
        turns=turns,
        ending=ending,
        seed=derive_seed(
            "imported", task.id, *(text for turn in turns for text in (turn.observation.text, turn.action.text))
        ),
        evidence=(*_measured(turns), *facts, *whole),
        error=error,
    )
    return ReadEpisode(
        trajectory=trajectory,
        score=score_of(reward, len(turns), ending),
        tokens=tokens,
        note=note,
        unread=unread,
    )


def score_of(reward: float | None, n_turns: int, ending: Ending = Ending.FINISHED) -> Score:
    """The score of a reward for a whole episode, paid on its last turn; unusable without one, which is not 0."""
    if reward is None or not ending.usable:
        problem = NO_REWARD if ending.usable else f"the log says that the episode broke ({ending.value})"
        return Score(ledger=(), reward_T=np.zeros(n_turns, np.float32), outcome=None, usable=False, problem=problem)
    paid = np.zeros(n_turns, np.float32)
    paid[-1] = reward
    event = RewardEvent(name=REWARD, kind="outcome", turn=None, value=reward, weight=1.0)
    return Score(ledger=(event,), reward_T=paid, outcome=reward, usable=True)


def with_tokens(turns: tuple[Turn, ...], sampled: Sequence[Sampled]) -> tuple[tuple[Turn, ...], KnownTokens, str]:
    """The turns with their tokens. A turn keeps what its context adds to the turns before it, so a log in which a
    context was rewritten (a thought dropped, a history cut) keeps its texts alone, and the note says where."""
    if len(turns) != len(sampled):
        return turns, KnownTokens.NONE, f"{len(sampled)} of {len(turns)} turns have tokens"
    seen, found = _NO_IDS, []
    logprobs = all(one.logprobs is not None and len(one.logprobs) == len(one.said) for one in sampled)
    for number, (turn, one) in enumerate(zip(turns, sampled, strict=True)):
        if not np.array_equal(one.prompt[: len(seen)], seen):
            return turns, KnownTokens.NONE, f"the context of turn {number} does not begin with the turns before it"
        if not len(one.said):
            return turns, KnownTokens.NONE, f"turn {number} has no sampled tokens"
        context = one.prompt[len(seen) :]
        seen = np.concatenate([one.prompt, one.said])
        found.append(_with(turn, context, one.said, one.logprobs if logprobs else None, EndedBy.STOP))
    return tuple(found), KnownTokens.SAMPLED if logprobs else KnownTokens.IDS, ""


def given_turn(turn: Turn, context: IntArray, said: IntArray) -> Turn:
    """A turn with ids that were made of its text: given, not sampled."""
    return _with(turn, context, said, None, EndedBy.SCRIPT)


def _with(turn: Turn, context: IntArray, said: IntArray, logprobs: FloatArray | None, ended_by: EndedBy) -> Turn:
    unknown = np.full(len(said), np.nan, np.float32)
    completion = replace(
        turn.completion, ids_K=said, logprobs_K=unknown if logprobs is None else logprobs, ended_by=ended_by
    )
    source = np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [len(context), len(said)])
    return replace(turn, context_ids=context, completion=completion, source=source)


# --- messages --------------------------------------------------------------------------------------------------------


def _turns(messages: Sequence[Plain]) -> tuple[tuple[Turn, ...], str, str | None]:
    """The turns, the system message, and what came after the last turn (None = nothing)."""
    if len(messages) > MAX_MESSAGES:
        raise BadRecord(f"it has {len(messages)} messages; at most {MAX_MESSAGES} are taken")
    rows = [Fields(one, f"message {number}") for number, one in enumerate(messages)]
    roles = [row.text("role") for row in rows]
    if odd := [role for role in roles if role not in ("system", "developer", "user", "assistant", "tool", "function")]:
        raise BadRecord(f"a message has the role '{odd[0]:.40}'; known: system, developer, user, assistant, tool")
    first = next((place for place, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
    spoken = [place for place, role in enumerate(roles) if role == "assistant"]
    if not spoken:
        raise BadRecord("it has no message of the assistant, so it is no episode")
    system = "\n\n".join(parts_of(row.any("content")).text for row in rows[:first])
    history, turns = hashlib.blake2b(system.encode(errors="replace"), digest_size=8), []
    for begin, place in pairwise([first - 1, *spoken]):
        observation = _observation(rows[begin + 1 : place])
        history.update(b"\0" + observation.text.encode(errors="replace"))
        action = _action(rows[place])
        turns.append(_turn(replace(observation, state_key=history.hexdigest()), action))
        history.update(b"\1" + action.text.encode(errors="replace"))
    rest = rows[spoken[-1] + 1 :]
    return tuple(turns), system, _observation(rest).text if rest else None


def _observation(rows: Sequence[Fields]) -> Observation:
    parts = [parts_of(row.any("content")) for row in rows]
    return Observation(
        text="\n\n".join(part.text for part in parts if part.text),
        images=tuple(i for part in parts for i in part.images),
    )


def _turn(observation: Observation, action: Action) -> Turn:
    said = Completion(ids_K=_NO_IDS, logprobs_K=_NO_LOGPROBS, ended_by=EndedBy.STOP, policy_version=0, text=action.text)
    return Turn(
        observation=observation, context_ids=_NO_IDS, completion=said, source=np.zeros(0, np.uint8), action=action
    )


def _action(row: Fields) -> Action:
    content, thought = parts_of(row.any("content")).text, row.text("reasoning_content", "")
    calls, blocks, problem = [], [], None
    for number, one in enumerate(row.list("tool_calls", ())):
        call = Fields(_parsed_call(one), f"call {number}")
        function = call.table("function") if call.has("function") else call
        name, arguments = function.text("name"), function.any("arguments")
        spelt = arguments if isinstance(arguments, str) else dump(arguments or {})
        blocks.append(f'{BEGIN}\n{{"name": {dump(name)}, "arguments": {spelt}}}\n{END}')
        parsed = _object(spelt)
        if parsed is None:
            problem = problem or f"the arguments of '{name}' are no JSON object"
        else:
            calls.append(ToolCall(name=name, arguments=parsed))
    text = "\n".join([content, *blocks] if content else blocks)
    if blocks or problem:
        return Action(text=text, thought=thought, calls=() if problem else tuple(calls), parse_error=problem)
    return Action(text=text, thought=thought)


def _parsed_call(one: object) -> object:
    """A call; some logs write it as a text."""
    return _object(one) if isinstance(one, str) else one


def _object(text: str) -> dict[str, Plain] | None:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _measured(turns: Sequence[Turn]) -> list[Evidence]:
    facts = []
    for number, turn in enumerate(turns):
        facts.append(Evidence(name="parsed", value=turn.action.parse_error is None, turn=number))
        facts += [Evidence(name="tool", value=call.name, turn=number) for call in turn.action.calls]
    return facts


def _answer(turns: Sequence[Turn]) -> str | None:
    last = turns[-1].action
    return None if last.calls or last.parse_error else last.text


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\x1f".join(texts).encode(errors="replace"), digest_size=8).hexdigest()


def facts_of(values: Mapping[str, Plain] | None, by: str = "env") -> list[Evidence]:
    """Measured numbers by their names, as facts about the whole episode."""
    made = {name: value for name, value in (values or {}).items() if isinstance(value, bool | int | float | str)}
    return [Evidence(name=name, value=value, by=by) for name, value in made.items()]  # type: ignore[arg-type]


assert "hermes" in TOOL_FORMATS
