"""Plays trees: episodes that branch off others, so that several leaves share the turns before the branch.

A tree grows in rounds. In each round an ``Expander`` sees the trees of its task and says where further leaves begin;
all leaves of a round are played side by side. The number of leaves of a task is always that of the entries of its plan.
A leaf has the help of its tree: episodes with different help never branch off each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np

from turngate.agents.branches import Fork, ForkKind, Trail, branch_start, hints, replay
from turngate.agents.given import Given
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.agents.rollout import (
    Episode,
    EpisodeStart,
    Player,
    World,
    Worlds,
    episode_of,
    hint_before,
    ignore,
    with_hint,
)
from turngate.errors import ConfigError
from turngate.part_calls import Unusable, call_part, short_result, text, whole
from turngate.types import Group, Info, Observation, Source, Task, Trajectory, Turn, derive_seed

BRANCHING = "branching"
_FORKS = "a list of Fork(id=…, turn=…), a turn that a leaf of the forest has played, or None for a tree of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """The leaves of one task with the same help so far, in the order in which they were begun.

    ``context``: most tokens of an episode.
    """

    leaves: tuple[Trajectory, ...]
    context: int

    @property
    def sound(self) -> tuple[Trajectory, ...]:
        """Leaves from which others can branch off: they have turns, and nothing broke."""
        return tuple(one for one in self.leaves if one.turns and one.ending.usable)

    @property
    def states(self) -> tuple[tuple[Trajectory, int], ...]:
        """Every state in which the policy acted, once: the leaf that came there first, and the turn before which."""
        begun = {one.id for one in self.trees}
        own = {one.id: 0 if one.parent is None or one.id in begun else one.parent[1] + 1 for one in self.sound}
        return tuple(
            (leaf, turn)
            for leaf in self.sound
            for turn in range(own[leaf.id], len(leaf.turns))
            if is_own(leaf.turns[turn])
        )

    @property
    def later_states(self) -> tuple[tuple[Trajectory, int], ...]:
        """``states`` without those in which the policy acted for the first time."""
        return tuple((leaf, turn) for leaf, turn in self.states if turn > first_own(leaf))

    @property
    def trees(self) -> tuple[Trajectory, ...]:
        """The leaves that began a tree."""
        ids = {one.id for one in self.leaves}
        return tuple(one for one in self.leaves if one.parent is None or one.parent[0] not in ids)

    def root(self, leaf: Trajectory) -> str:
        """Id of the leaf that began the tree of ``leaf``."""
        by_id = {one.id: one for one in self.leaves}
        while leaf.parent is not None and leaf.parent[0] in by_id:
            leaf = by_id[leaf.parent[0]]
        return leaf.id

    @property
    def used(self) -> Mapping[tuple[str, int], int]:
        """How many leaves branch off at each state, by the leaf that came there first, and the turn."""
        counts: dict[tuple[str, int], int] = {}
        for leaf in self.leaves:
            if leaf.parent is not None:
                counts[leaf.parent] = counts.get(leaf.parent, 0) + 1
        return counts


def is_own(turn: Turn) -> bool:
    """Whether the policy took the turn."""
    return bool((turn.source[len(turn.context_ids) :] == Source.POLICY).any())


def first_own(leaf: Trajectory) -> int:
    """The first turn that the policy took; the number of turns where it took none."""
    return next((number for number, turn in enumerate(leaf.turns) if is_own(turn)), len(leaf.turns))


class Expander(Protocol):
    """Chooses the states at which trees grow."""

    def choose(self, forest: Forest, room: int, rng: np.random.Generator) -> Sequence[Fork | None]:
        """Where the leaves of the next round begin; None = a tree of its own, from the task's first state.

        ``room``: how many leaves are missing yet. Whatever exceeds it is ignored; if nothing is chosen, all that are
        missing become trees of their own. A fork may name any leaf that passes through the state.
        """
        ...


@dataclass(slots=True, eq=False)
class _Growing:
    """The trees of one task with the same help: the ``places`` of its leaves in the plan, those that were played so
    far, and their source of randomness."""

    task: Task
    entry: Entry
    rng: np.random.Generator
    places: list[int]
    leaves: list[Trajectory] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many leaves are missing."""
        return len(self.places) - len(self.leaves)

    def chosen(self, expander: Expander, player: Player) -> list[tuple[int, Fork | None]]:
        """The leaves of the next round by their places: what the expander chose, or all that are missing."""
        room = self.room
        forest = Forest(leaves=tuple(self.leaves), context=player.limits.context)
        found = call_part(BRANCHING, expander.choose, forest, room, self.rng, take=self._forks, must=_FORKS)
        return list(zip(self.places[len(self.leaves) :], found or [None] * room, strict=False))

    def _forks(self, found: Iterable[object]) -> list[Fork | None]:
        """The answer of an expander. Raises Unusable for a fork at a turn that was not played."""
        n_turns = {leaf.id: len(leaf.turns) for leaf in self.leaves}
        return [None if fork is None else _fork(fork, n_turns) for fork in islice(found, self.room)]


def _fork(found: object, n_turns: Mapping[str, int]) -> Fork:
    if not isinstance(found, Fork):
        raise Unusable(short_result(found))
    turn = whole(found.turn, "turn")
    if turn >= n_turns.get(text(found.id, "id"), 0):
        raise Unusable(f"no leaf '{found.id}' has turn {turn}")
    return Fork(id=found.id, turn=turn, note=text(found.note, "note"))


@dataclass(slots=True, eq=False)
class _Wave:
    """All trees of one task: ``growing`` by the help that they get."""

    task: Task
    growing: list[_Growing]

    @classmethod
    def planned(cls, task: Task, plan: Sequence[Entry], seed: int) -> _Wave:
        """Equal entries grow trees together; an episode of prefix turns alone has no turn to branch at."""
        growing: list[_Growing] = []
        for place, entry in enumerate(plan):
            whole = isinstance(entry, PrefixTurns) and entry.whole
            same = None if whole else next((one for one in growing if one.entry == entry), None)
            if same is None:
                rng = np.random.default_rng(derive_seed(seed, task.id, "branching", place))
                growing.append(_Growing(task, entry, rng, [place]))
            else:
                same.places.append(place)
        return cls(task, growing)

    @property
    def done(self) -> bool:
        return not any(one.room for one in self.growing)

    def group(self) -> Group:
        """All leaves, in the order of the plan."""
        played = {place: leaf for one in self.growing for place, leaf in zip(one.places, one.leaves, strict=True)}
        return Group(task=self.task, trajectories=tuple(played[place] for place in sorted(played)))


class TreePlayer(Player):
    """A player whose episodes may begin inside of others. One is used for one step, because it keeps all snapshots."""

    def __init__(self, player: Player, fork: Callable[[Task], ForkKind]) -> None:
        super().__init__(player.policy, player.chat, player.limits, sampling=player.sampling, n_tokens=player.n_tokens)
        self._fork = fork
        self._trails: dict[str, Trail] = {}
        self._branches: dict[str, tuple[Trajectory, Fork]] = {}

    def leaf(self, growing: _Growing, at: tuple[int, Fork | None], seed: int) -> Episode:
        """The episode of the next leaf of a task."""
        place, fork = at
        task = growing.task
        own = episode_of(task, place, growing.entry, seed)
        if fork is not None:
            self._branches[own.id] = next(leaf for leaf in growing.leaves if leaf.id == fork.id), fork
        return own

    async def _enter(self, world: World, episode: Episode) -> EpisodeStart:
        parent, fork = self._branches.get(episode.id, (None, None))
        if parent is None or fork is None:
            return await self._noted(world, episode, await super()._enter(world, episode))
        if fork.note:
            return await self._again(world, episode, parent, fork)
        before = self._trails[parent.id]
        self._trails[episode.id] = trail = before.until(fork.turn)
        if trail.snapshots_T:
            await world.restore(trail.snapshots_T[fork.turn])
        else:
            await replay(world, episode.task, trail.seed, self.chat.tool_format, parent.turns[: fork.turn + 1])
        return branch_start(parent, fork.turn, trail)

    async def _again(self, world: World, episode: Episode, parent: Trajectory, fork: Fork) -> EpisodeStart:
        """A new attempt, which is shown the earlier one, with the same help."""
        first = await super()._enter(world, episode)
        seen = replace(first.observation, text=f"{fork.note}\n{first.observation.text}")
        last = parent.turns[-1]
        frame = partial(
            self.chat.frames(first.tools, episode.task.env_id).follow_up, seen.text, last.completion.ended_by
        )
        following, hint_L = with_hint(frame, hint_before(episode, 0))
        start = replace(
            first,
            observation=seen,
            said=parent.turns,
            context=np.concatenate([parent.ids(), following]).astype(np.int32),
            hint=np.concatenate([hints(parent.turns), hint_L]),
            parent=(parent.id, 0),
        )
        return await self._noted(world, episode, start)

    async def _step(self, world: World, episode: Episode, asked: Given) -> tuple[Observation, float, bool, bool, Info]:
        reply = await super()._step(world, episode, asked)
        _, _, terminated, truncated, info = reply
        trail = self._trails[episode.id]
        trail.evidence += info["evidence"]
        if not (terminated or truncated):
            await self._mark(world, episode, trail)
        return reply

    async def _noted(self, world: World, episode: Episode, start: EpisodeStart) -> EpisodeStart:
        """Begin the trail of an episode that starts from the task's first state."""
        trail = Trail(seed=episode.env_seed, tools=start.tools)
        self._trails[episode.id] = trail
        await self._mark(world, episode, trail)
        return start

    async def _mark(self, world: World, episode: Episode, trail: Trail) -> None:
        """Note the state before the next turn."""
        trail.facts_T.append(len(trail.evidence))
        if self._fork(episode.task) == "exact":
            trail.snapshots_T.append(await world.snapshot())


async def play_tree(
    player: Player,
    worlds: Worlds,
    tasks: Sequence[Task],
    plans: Sequence[Sequence[Entry]],
    expander: Expander,
    *,
    fork: Callable[[Task], ForkKind],
    seed: int,
    ended: Callable[[Group], None] = ignore,
) -> list[Group]:
    """Play a leaf for each entry of a task's plan, in trees as ``expander`` grows them: one group per task.

    Leaves whose entries are equal, that is with the same help or with none, grow trees together: a branch has the help
    of the leaf that it leaves, and the expander never sees the others. The policy's turns alone are branched at.

    ``Trajectory.parent`` says off which leaf of its group one branched, and before which turn. ``fork`` says how the
    environment of a task is copied. Every leaf has a seed of its own (``seed``, task, place in the plan), which its
    turns after the branch are sampled with; ``seed`` must differ from step to step. ``ended`` is called with each group
    that is complete. Raises ConfigError for a task whose environment cannot be forked, RunError for one that does not
    replay.
    """
    for task in tasks:
        refuse_unforkable(task.env_id, fork(task))
    trees = TreePlayer(player, fork)
    waves = [_Wave.planned(task, plan, seed) for task, plan in zip(tasks, plans, strict=True)]
    with player.policy.keeping():
        while waiting := [wave for wave in waves if not wave.done]:
            growing = [one for wave in waiting for one in wave.growing if one.room]
            begun = [[trees.leaf(one, at, seed) for at in one.chosen(expander, player)] for one in growing]
            played = iter(await trees.play(worlds, [episode for some in begun for episode in some]))
            for one, some in zip(growing, begun, strict=True):
                one.leaves += [next(played) for _ in some]
            for wave in waiting:
                if wave.done:
                    ended(wave.group())
    return [wave.group() for wave in waves]


def refuse_unforkable(env: str, fork: ForkKind) -> None:
    """Raise ConfigError for an environment that declares that it cannot be forked."""
    if fork == "none":
        raise ConfigError(
            f"[branching] cannot be used with '{env}': its environment declares fork = \"none\". If equal actions "
            'always lead to equal states, declare fork = "replay"; or write save and load and declare "exact"'
        )
