"""Data without a field in ATIF, in ``extra["turngate"]``: task, evidence, ledger, gates, help, how a turn was read."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from turngate.store.codecs import Row
from turngate.store.formats.fields import BadRecord, Fields, Plain
from turngate.store.formats.read_episode import RecordedPlace
from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Evidence,
    FloatArray,
    Guidance,
    IntArray,
    Observation,
    RewardEvent,
    Score,
    Source,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)

KEY = "turngate"
EXTRA = f'extra["{KEY}"]'
_FLOAT = "turngate:float"
VERSION = 1
"""The version of the content of ``extra["turngate"]``; a newer one is refused."""


def strict(value: Plain) -> Plain:
    """A JSON value in which every number is one that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


def loose(value: Plain) -> Plain:
    """The inverse of ``strict``."""
    if isinstance(value, Mapping):
        if set(value) == {_FLOAT} and value[_FLOAT] in ("nan", "inf", "-inf"):
            return float(value[_FLOAT])
        return {key: loose(item) for key, item in value.items()}
    return [loose(item) for item in value] if isinstance(value, list) else value


_USUAL: Mapping[str, Plain] = {"state_key": "", "images": [], "parse_error": None, "flaw": "", "guidance": None}

# --- a turn ----------------------------------------------------------------------------------------------------------


def write_step(turn: Turn, message: str) -> dict[str, Plain]:
    """The parts of a turn that the standard fields of a step lack; ``message`` is the text that they have."""
    said, action = turn.completion, turn.action
    plain: dict[str, Plain] = {
        "state_key": turn.observation.state_key,
        "images": [base64.b64encode(image).decode() for image in turn.observation.images],
        "ended_by": said.ended_by.value,
        "policy_version": said.policy_version,
        "parse_error": action.parse_error,
        "flaw": action.flaw,
        "guidance": _plain(turn.guidance),
    }
    kept = {name: value for name, value in plain.items() if value != _USUAL.get(name)}
    texts = {"text": (action.text, message), "said": (said.text, action.text)}
    kept |= {name: text for name, (text, told) in texts.items() if text != told}
    if not np.array_equal(turn.source, _usual(len(turn.context_ids), len(said.ids_K))):
        kept["source"] = turn.source.tolist()
    if not np.isfinite(said.logprobs_K).all():
        kept["logprobs"] = strict(said.logprobs_K.tolist())
    return kept


def read_step(
    extra: Fields,
    *,
    observed: str,
    message: str,
    thought: str,
    calls: Sequence[tuple[str, dict[str, Plain]]],
    context: IntArray,
    said: IntArray,
    logprobs: FloatArray | None,
) -> Turn:
    """The turn of a step. Raises BadRecord."""
    guidance = _guidance(extra.any("guidance"))
    hint = f"\n{guidance.text}" if guidance is not None and guidance.text else ""
    text = extra.text("text", message)
    if extra.has("logprobs"):
        logprobs = np.array(loose(extra.list("logprobs")), np.float32)
    kept = np.full(len(said), np.nan, np.float32) if logprobs is None else logprobs
    source = extra.any("source")
    marks = _usual(len(context), len(said)) if source is None else np.array(source, np.uint8)
    if len(kept) != len(said) or len(marks) != len(context) + len(said):
        raise BadRecord(f"a turn has {len(said)} tokens and {len(kept)} log-probabilities, or marks of another length")
    return Turn(
        observation=Observation(
            text=observed.removesuffix(hint) if hint else observed,
            images=tuple(base64.b64decode(image) for image in extra.list("images", ())),
            state_key=extra.text("state_key", ""),
        ),
        context_ids=context,
        completion=Completion(
            ids_K=said,
            logprobs_K=kept,
            ended_by=EndedBy(extra.text("ended_by", "stop")),
            policy_version=extra.whole("policy_version", 0),
            text=extra.text("said", text),
        ),
        source=marks,
        action=Action(
            text=text,
            thought=thought,
            calls=tuple(ToolCall(name=name, arguments=loose(arguments)) for name, arguments in calls),
            parse_error=extra.any("parse_error"),
            flaw=extra.text("flaw", ""),
        ),
        guidance=guidance,
    )


def _usual(n_context: int, n_said: int) -> Plain:
    return np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [n_context, n_said])


# --- an episode ------------------------------------------------------------------------------------------------------


def write_whole(row: Row, step: int) -> dict[str, Plain]:
    """Everything about an episode and its score that is in no step."""
    one, score = row.trajectory, row.score
    filled = score.filled and {"ledger": _ledger(score.filled), "reward_T": strict(score.filled.reward_T.tolist())}
    return {
        "version": VERSION,
        "step": step,
        "phase": row.phase,
        "group": row.group_id,
        "sibling": row.sibling,
        "task": _public(one.task),
        "ending": one.ending.value,
        "seed": one.seed,
        "id": one.id,
        "parent": None if one.parent is None else list(one.parent),
        "error": one.error,
        "guidance": _plain(one.guidance),
        "evidence": [strict(_plain(fact)) for fact in one.evidence],
        "score": {
            "ledger": _ledger(score),
            "reward_T": strict(score.reward_T.tolist()),
            "outcome": strict(score.outcome),
            "usable": score.usable,
            "problem": score.problem,
            "success": score.success,
            "missing": list(score.missing),
            "filled": filled,
        },
    }


def read_whole(whole: Fields, turns: tuple[Turn, ...]) -> tuple[Trajectory, Score, RecordedPlace]:
    """The episode with these turns, its score and where it was recorded. Raises BadRecord."""
    version = whole.whole("version", 0)
    if version != VERSION:
        raise BadRecord(f"{EXTRA} has version {version}, this turngate reads {VERSION}; a newer turngate may read it")
    parent = whole.any("parent")
    try:
        trajectory = Trajectory(
            id=whole.text("id"),
            task=_task(whole.table("task")),
            turns=turns,
            ending=Ending(whole.text("ending")),
            seed=whole.whole("seed", 0),
            evidence=tuple(Evidence(**loose(fact)) for fact in whole.list("evidence")),
            guidance=_guidance(whole.any("guidance")),
            parent=None if parent is None else (str(parent[0]), int(parent[1])),
            error=whole.text("error", ""),
        )
        score = _score(whole.table("score"))
        place = RecordedPlace(
            whole.whole("step", 0), whole.text("phase"), whole.text("group"), whole.whole("sibling", 0)
        )
    except (TypeError, ValueError, LookupError) as error:
        raise BadRecord(f"{EXTRA} is not what turngate writes: {error}") from error
    return trajectory, score, place


def _public(task: Task) -> dict[str, Plain]:
    found: dict[str, Plain] = {"id": task.id, "env_id": task.env_id, "prompt": task.prompt, "split": task.split}
    return found | ({"question": task.question} if task.question else {})


def _task(told: Fields) -> Task:
    """Its public fields; a file that has others, such as ``private``, was not written by turngate."""
    task = Task(
        id=told.text("id"),
        env_id=told.text("env_id"),
        prompt=told.text("prompt"),
        split=told.text("split"),
        question=told.text("question", ""),
    )
    if told.unread:
        raise ValueError(f"a task has no field '{told.unread[0]}'")
    return task


def _score(told: Fields) -> Score:
    score = Score(
        **_payments(told),
        outcome=None if told.any("outcome") is None else float(loose(told.any("outcome"))),
        usable=told.flag("usable"),
        problem=told.text("problem", ""),
        success=told.flag("success"),
        missing=tuple(map(str, told.list("missing", ()))),
    )
    filled = told.any("filled")
    return score if filled is None else replace(score, filled=replace(score, **_payments(Fields(filled, "filled"))))


def _payments(told: Fields) -> dict[str, Plain]:
    events = tuple(RewardEvent(**loose(event)) for event in told.list("ledger"))
    return {"ledger": events, "reward_T": np.array(loose(told.list("reward_T")), np.float32)}


def _ledger(score: Score) -> list[Plain]:
    return [strict(_plain(event)) for event in score.ledger]


def _guidance(told: Plain) -> Guidance | None:
    try:
        return None if told is None else Guidance(**told)
    except TypeError as error:
        raise BadRecord(f"{EXTRA} has a guidance that turngate does not write: {error}") from error


def _plain(one: Plain) -> Plain:
    return None if one is None else {field.name: getattr(one, field.name) for field in fields(one)}
