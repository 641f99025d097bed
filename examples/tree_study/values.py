"""Turn values by forking against exact ones, in a lock whose player is known: every key has a known chance."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from examples.credit_study.settings import LOCK, RIGHT
from turngate.agents.chat import Chat
from turngate.agents.policies.scripted import ScriptedPolicy
from turngate.agents.prefix_turns import PrefixTurns
from turngate.agents.rollout import Player, TokenLimits, play_groups
from turngate.agents.tiny import train_tokenizer
from turngate.agents.tree_rollout import play_tree
from turngate.envs.lock import KEYS, LockEnv, LockTasks, colours_of, key_of
from turngate.envs.pool.pool import EnvPool
from turngate.trainer.batch.table import tabulate
from turngate.trainer.branching.value_forks import McValuesBranching
from turngate.trainer.signals.base import played_of
from turngate.trainer.signals.continuations import ContinuationValues
from turngate.types import Group, Guidance, Request, ScoredGroup, Task

CONTINUATIONS = 4
LOCKS = LockTasks()
LEAVES = 1 + CONTINUATIONS * LOCKS.dials
"""Of each lock: one chain, and all its continuations."""


class TurnValue(NamedTuple):
    """The states before one turn, one of each lock: mean value by forking, mean exact value, and the standard error of
    their difference, over locks."""

    turn: int
    forked: float
    exact: float
    error: float

    @property
    def errors_off(self) -> float:
        """How many standard errors they differ by; 0 where they are the same in every lock."""
        gap = abs(self.forked - self.exact)
        return gap / self.error if self.error else 0.0


def turn_values(n_locks: int, seed: int) -> list[TurnValue]:
    """Play ``n_locks`` trees, and compare the values of the turns of their chains with exact ones, turn by turn."""
    tasks = [LOCKS.task("train", number) for number in range(n_locks)]
    gaps: dict[int, list[tuple[float, float]]] = defaultdict(list)
    exact: dict[tuple[str, ...], Mapping[str, float]] = {}
    for group in asyncio.run(_trees(tasks, seed)):
        colours = colours_of(group.task)
        if colours not in exact:  # the value of a state does not depend on the number of the lock
            exact[colours] = exact_values(group.task)
        chain = group.trajectories[0]
        for turn, value in enumerate(_values(LOCK.score_group(group))[: len(chain.turns)]):
            gaps[turn].append((value, exact[colours][chain.turns[turn].observation.state_key]))
    return [_compared(turn, pairs) for turn, pairs in sorted(gaps.items())]


def exact_values(task: Task) -> dict[str, float]:
    """What is paid from each state of a lock on, in expectation over all keys that can still be pressed.

    Every sequence of keys is played once and paid by the rubric; its chance is known.
    """
    weighed: dict[str, list[tuple[float, float]]] = defaultdict(list)
    group = LOCK.score_group(asyncio.run(_everything(task)))
    for trajectory, score in zip(group.trajectories, group.scores, strict=True):
        keys = [turn.action.text.removeprefix("press ") for turn in trajectory.turns]
        chance = prod(chance_of(key, colour) for key, colour in zip(keys, colours_of(task), strict=True))
        to_go_T = np.cumsum(score.reward_T[::-1].astype(np.float64))[::-1]
        for turn, to_go in zip(trajectory.turns, to_go_T, strict=True):
            weighed[turn.observation.state_key].append((chance, float(to_go)))
    return {
        state: sum(chance * paid for chance, paid in found) / sum(chance for chance, _ in found)
        for state, found in weighed.items()
    }


def chance_of(key: str, colour: str) -> float:
    """How often the player presses a key for a colour."""
    return RIGHT[colour] if key == key_of(colour) else (1 - RIGHT[colour]) / (len(KEYS) - 1)


def press(request: Request) -> str:
    """The player: a key drawn by ``chance_of``, with the seed of the turn."""
    colour = colours_of(LOCKS.find(request.task_id))[request.turn]
    drawn = np.random.default_rng(request.seed).choice(KEYS, p=[chance_of(key, colour) for key in KEYS])
    return f"press {drawn}"


def _player() -> Player:
    chat = Chat(train_tokenizer([f"press {key}" for key in KEYS] * 4, vocabulary=300))
    return Player(ScriptedPolicy(press, chat, concurrency=4), chat, TokenLimits(turn_tokens=40, context=900))


async def _trees(tasks: Sequence[Task], seed: int) -> list[Group]:
    part = McValuesBranching(continuations=CONTINUATIONS)
    async with EnvPool(LockEnv, size=4) as worlds:
        plans = [[None] * LEAVES] * len(tasks)
        return await play_tree(_player(), worlds, tasks, plans, part, fork=lambda task: "exact", seed=seed)


async def _everything(task: Task) -> Group:
    plan = [
        PrefixTurns(
            turns=tuple(f"press {key}" for key in keys),
            guidance=Guidance(kind="enumerated", level=len(keys), text="", source="oracle"),
            whole=True,
        )
        for keys in product(KEYS, repeat=LOCKS.dials)
    ]
    async with EnvPool(LockEnv, size=4) as worlds:
        (group,) = await play_groups(_player(), worlds, [task], [plan], seed=0)
    return group


def _values(group: ScoredGroup) -> list[float]:
    """The value of the state before each turn of a tree, by its continuations."""
    found = ContinuationValues("paid").measure(played_of([group], tabulate([group])))
    return [float(value) for value in found.columns["value_N"]]


def _compared(turn: int, pairs: Sequence[tuple[float, float]]) -> TurnValue:
    forked, exact = zip(*pairs, strict=True)
    differences = [one - other for one, other in pairs]
    return TurnValue(turn, fmean(forked), fmean(exact), stdev(differences) / sqrt(len(pairs)))
