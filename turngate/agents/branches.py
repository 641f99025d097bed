"""Where an episode branches off another one, and how an environment is brought to that place.

An environment whose ``fork`` is "exact" is restored from a snapshot. One whose ``fork`` is "replay" plays the recorded
actions again, and its state is compared with the recorded one before every turn. Turns before the branch are shared:
the branch holds the same ``Turn`` objects, so their tokens are identical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from turngate.agents.given import given_again
from turngate.agents.rollout import EpisodeStart, World
from turngate.errors import RunError
from turngate.types import JSON, BoolArray, Evidence, Info, Observation, Source, Task, Trajectory, Turn

ForkKind: TypeAlias = Literal["exact", "replay", "none"]
"""How the state of an environment is copied (see ``TurnSpec.fork``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a further leaf of a tree begins: before turn ``turn`` of trajectory ``id``.

    ``note``: the leaf is a new attempt instead. The environment begins again, and the policy sees the whole earlier
    attempt, then this note, then the first observation; no turn is shared.
    """

    id: str
    turn: int = 0
    note: str = ""


@dataclass(slots=True, kw_only=True)
class Trail:
    """Notes that are taken while an episode is played, so that others can branch off it.

    ``facts_T`` and ``snapshots_T`` belong to the state before each turn: how many facts were measured by then, and the
    snapshot (none where the environment is replayed). ``seed`` is that of the environment.
    """

    seed: int
    tools: tuple[Mapping[str, JSON], ...] = ()
    evidence: list[Evidence] = field(default_factory=list)
    facts_T: list[int] = field(default_factory=list)
    snapshots_T: list[object] = field(default_factory=list)

    def until(self, turn: int) -> Trail:
        """The trail of an episode that leaves this one before ``turn``."""
        n_facts = self.facts_T[turn]
        return Trail(
            seed=self.seed,
            tools=self.tools,
            evidence=self.evidence[:n_facts],
            facts_T=self.facts_T[: turn + 1],
            snapshots_T=self.snapshots_T[: turn + 1],
        )


def branch_start(parent: Trajectory, turn: int, trail: Trail) -> EpisodeStart:
    """The start of a branch that leaves ``parent`` before ``turn``; ``trail`` is the branch's own."""
    return EpisodeStart(
        observation=parent.turns[turn].observation,
        tools=trail.tools,
        turns=parent.turns[:turn],
        said=parent.turns[:turn],
        evidence=tuple(trail.evidence),
        context=parent.turns[turn].context_ids,
        hint=hints(parent.turns[turn : turn + 1])[: len(parent.turns[turn].context_ids)],
        parent=(parent.id, turn),
    )


def hints(turns: Sequence[Turn]) -> BoolArray:
    """Which tokens of these turns belong to hints in their contexts: bool[L], completions included."""
    marks = [np.zeros(len(turn.source), np.bool_) for turn in turns]
    for turn, mark_L in zip(turns, marks, strict=True):
        n = len(turn.context_ids)
        mark_L[:n] = turn.source[:n] == Source.GUIDE
    return np.concatenate(marks)


def parent_of(one: Trajectory, known: Mapping[str, Trajectory]) -> Trajectory | None:
    """The episode of ``known`` after or inside of which an expander began ``one``; None if it began a new tree.

    The ``parent`` of a retry, which a guide began, does not count: it has other help than its parent.
    """
    parent = known.get(one.parent[0]) if one.parent is not None else None
    return parent if parent is not None and parent.guidance == one.guidance else None


def shared_parent(one: Trajectory, known: Mapping[str, Trajectory]) -> Trajectory | None:
    """The episode of ``known`` off which ``one`` branched, sharing the state and all turns before the branch.

    None for an episode that began by itself, and for a new attempt, which is shown the whole attempt before it.
    """
    parent = parent_of(one, known)
    if parent is None or not one.turns:
        return None
    same = np.array_equal(one.turns[0].context_ids, parent.turns[0].context_ids)
    return parent if same else None


def root(one: Trajectory, known: Mapping[str, Trajectory]) -> Trajectory:
    """The episode that began the tree of ``one``; the environment was reset with its seed."""
    while (parent := shared_parent(one, known)) is not None:
        one = parent
    return one


async def replay(world: World, task: Task, seed: int, tool_format: str, turns: Sequence[Turn]) -> Info:
    """Play recorded turns again, up to the state before the last of ``turns``; the info of the reset.

    Raises RunError if the environment does not come to the same states, naming the first turn that differs.
    """
    observation, begun = await world.reset(task, seed, tool_format)
    _compare(task, 0, observation, turns[0].observation)
    for number, (turn, following) in enumerate(pairwise(turns), start=1):
        observation, _, terminated, truncated, _ = await world.step(given_again(turn))
        if terminated or truncated:
            raise RunError(_differs(task, number, "the episode is over", "it went on when it was recorded"))
        _compare(task, number, observation, following.observation)
    return begun


def _compare(task: Task, turn: int, found: Observation, recorded: Observation) -> None:
    """States are compared by their keys, by their texts where the environment gives no key."""
    one, other = (found.state_key, recorded.state_key) if recorded.state_key else (found.text, recorded.text)
    if one != other:
        raise RunError(_differs(task, turn, f"the state is '{one:.200}'", f"'{other:.200}' was recorded"))


def _differs(task: Task, turn: int, found: str, recorded: str) -> str:
    return (
        f"the environment of task '{task.id}' cannot be branched by replay, because it does not repeat itself: before "
        f"turn {turn} {found}, but {recorded}. Make it deterministic (all randomness from its np_random, no clock), "
        'write save and load and declare fork = "exact", or leave [branching] out'
    )
