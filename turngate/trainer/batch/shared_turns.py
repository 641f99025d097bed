"""Turns that siblings share although they were sampled independently: columns from which trees are built.

Siblings that begin with equal turns share the nodes of a tree until they differ (see ``credit.tree``). How often that
happens depends on what must be equal: token ids hardly ever are once the model has written free text. A rule over trees
then silently gives the same credit as its plain form, so watch the metric ``credit/merged_share``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turngate.agents.branches import shared_parent
from turngate.trainer.credit.cohorts import Int64Array, validate
from turngate.trainer.credit.tree import Merge, grow
from turngate.types import Action, BoolArray, Trajectory, Turn, TurnTable, derive_seed


def shared_columns(trajectories: Sequence[Trajectory]) -> dict[str, Int64Array]:
    """``act_N`` and ``said_N``, hashes of each turn's action and of its tokens: int64[N] each, never below 0.

    * ``act_N``: the state before the turn (its key, or the text of the observation where the environment gives none)
      and the action: its tool calls with their arguments, or all that the model wrote if it called no tool. Turns with
      different thoughts but the same call are equal.
    * ``said_N``: the ids of the turn's context and of its completion.
    """
    turns = [(trajectory.task.env_id, turn) for trajectory in trajectories for turn in trajectory.turns]
    return {
        "act_N": np.array([_act(env_id, turn) for env_id, turn in turns], np.int64),
        "said_N": np.array([_turn_digest(turn) for _, turn in turns], np.int64),
    }


def regrafted(trajectories: Sequence[Trajectory], stays_B: BoolArray) -> tuple[Trajectory, ...]:
    """The trajectories that stay, joined to the trees that are left when the others are taken out.

    Where one is taken out off which others branched, the branch that shares most turns with it stands in its place, and
    the others then branch off that; in the place of a root it has its seed, by which their environment was reset, so
    that it can be replayed. So shared turns are still recognised as the same, and all are still the episodes of one
    tree.
    """
    kept = {one.id: one for one in trajectories}
    for gone in (one for one, stays in zip(trajectories, stays_B, strict=True) if not stays):
        gone = kept[gone.id]  # it may have replaced an earlier one
        branches = [
            (one, one.parent[1]) for one in kept.values() if one.parent is not None and shared_parent(one, kept) is gone
        ]
        above = shared_parent(gone, kept)
        del kept[gone.id]
        if not branches:
            continue
        heir, shared = max(branches, key=lambda branch: (branch[1], len(branch[0].turns) > branch[1]))
        for one, turn in branches:
            kept[one.id] = replace(one, parent=(heir.id, turn))
        place = gone.parent
        if above is not None and place is not None:
            place = (above.id, min(place[1], shared))
        seed = heir.seed if above is not None else gone.seed  # by that of its root the environment was reset
        kept[heir.id] = replace(heir, parent=place, seed=seed)
    return tuple(kept[one.id] for one in trajectories if one.id in kept)


def sampled_turns(trajectory: Trajectory) -> tuple[Turn, ...]:
    """The turns that were sampled for this trajectory; a branch shares those before them with its parent."""
    return trajectory.turns if trajectory.parent is None else trajectory.turns[trajectory.parent[1] :]


def merged_share(table: TurnTable, merge: Merge) -> float:
    """The share of tree nodes that more than one sibling shares; 0 = no two siblings share a turn.

    A node is a turn, or several equal ones merged. Raises ShapeError as ``credit.tree.grow`` does.
    """
    validate(table)
    return float((grow(table, "merged_share", merge).visits_G > 1).mean())


def _act(env_id: str, turn: Turn) -> int:
    seen = turn.observation
    state = ("key", seen.state_key) if seen.state_key else ("text", seen.text)
    return derive_seed("act", env_id, *state, *_done(turn.action))


def _done(action: Action) -> tuple[str, str]:
    if not action.calls:
        return "cut off" if action.cut_off else "text", action.text
    calls = [[call.name, call.arguments] for call in action.calls]
    return "calls", json.dumps(calls, sort_keys=True, ensure_ascii=False, default=repr)


def _turn_digest(turn: Turn) -> int:
    digest = hashlib.blake2b(str(len(turn.context_ids)).encode(), digest_size=8)
    for ids in (turn.context_ids, turn.completion.ids_K):
        digest.update(np.ascontiguousarray(ids, np.int32).tobytes())
    return int.from_bytes(digest.digest(), "big") >> 1
