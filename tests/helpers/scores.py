"""Scored episodes written by hand: what was called, seen and paid in each turn, without a model or an environment."""

from collections.abc import Sequence

import numpy as np

from turngate.types import (
    Action,
    Completion,
    EndedBy,
    Ending,
    Observation,
    RewardEvent,
    Score,
    ScoredGroup,
    Source,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)


def event(name, value, *, kind="process", turn=None, weight=1.0, factor=1.0, gate=""):
    return RewardEvent(name=name, kind=kind, turn=turn, value=value, weight=weight, factor=factor, gate=gate)


def turn(call="", *, key="", text=None, ids=(), parse_error=None):
    """``call`` is 'tool argument'."""
    name, _, argument = call.partition(" ")
    calls = (ToolCall(name=name, arguments={"x": argument}),) if call else ()
    return Turn(
        observation=Observation(text="", state_key=key),
        context_ids=np.zeros(1, np.int32),
        completion=Completion(
            ids_K=np.asarray(ids, np.int32),
            logprobs_K=np.zeros(len(ids), np.float32),
            ended_by=EndedBy.STOP,
            policy_version=0,
        ),
        source=np.array([Source.CONTEXT] + [Source.POLICY] * len(ids), np.uint8),
        action=Action(text=call if text is None else text, calls=calls, parse_error=parse_error),
    )


def episode(name="t", *, outcome: float | None = 1.0, events: Sequence[RewardEvent] = (), turns=1, usable=True):
    """``turns`` is a number of empty turns or the turns themselves; the outcome is paid too."""
    played = tuple(turn() for _ in range(turns)) if isinstance(turns, int) else tuple(turns)
    ledger = (*(() if outcome is None else (event("outcome", outcome, kind="outcome"),)), *events)
    reward_T = np.zeros(len(played), np.float32)
    for one in ledger:
        reward_T[len(played) - 1 if one.turn is None else one.turn] += one.paid
    trajectory = Trajectory(
        id=name, task=Task(id="task", env_id="e", prompt=""), turns=played, ending=Ending.FINISHED, seed=0
    )
    return trajectory, Score(ledger=ledger, reward_T=reward_T, outcome=outcome, usable=usable)


def group(*episodes):
    trajectories, scores = zip(*episodes, strict=True)
    return ScoredGroup(task=trajectories[0].task, trajectories=trajectories, scores=scores)


def alarm_of(check):
    """The alarm of what a monitor says; None if it is calm or cannot tell."""
    return None if check is None else check.alarm
