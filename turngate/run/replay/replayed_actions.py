"""Carry out the recorded actions of a run again, in the run's own environments, and compare the results.

Sampled turns, given ones and those of branches are carried out alike. The environment is reset with the task and the
seed of the episode; a branch begins as the episode did that it left. The scores are made again by the run's rubric,
from the facts that the replay measured and those that examiners recorded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turngate.agents.branches import parent_of, root, shared_parent
from turngate.agents.given import given_again
from turngate.agents.rollout import REASON_CHARS, World, Worlds
from turngate.config.run_config import Config
from turngate.config.sections import TinyModel
from turngate.errors import AgentFault, EnvError, ReplayRefused, UserError, VerifierError
from turngate.run.assembly.models import outlined
from turngate.run.assembly.target_policy import started_from
from turngate.run.environments import Environments
from turngate.store import Store
from turngate.store.folder import RunFolder
from turngate.store.replay import ReplayDifference, Replayed, first_divergence, score_divergence
from turngate.types import (
    FAULT,
    Action,
    Ending,
    Evidence,
    Group,
    ScoredGroup,
    Task,
    Trajectory,
    Turn,
    derive_seed,
    storable,
)

TRAINING = ("train", "unused")
"""Phases whose episodes were scored with the number of their step."""
MOST_AT_ONCE = 16
"""Most environments that replay side by side: none waits for a model, so more would not be faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeReplay:
    """A recorded episode, and where its replay first differs (None = nowhere)."""

    step: int
    phase: str
    id: str
    divergence: ReplayDifference | None


@dataclass(slots=True, kw_only=True)
class ReplayCounts:
    """The results of all episodes: ``left_out`` counts those that were not replayed, by the reason."""

    identical: int = 0
    diverged: list[EpisodeReplay] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def replayed(self) -> int:
        """Number of episodes that were replayed."""
        return self.identical + len(self.diverged)

    def add(self, found: EpisodeReplay) -> None:
        """Count one episode."""
        if found.divergence is None:
            self.identical += 1
        else:
            self.diverged.append(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayableEpisode:
    """An episode to replay: ``task`` with its private data; ``seed``: see ``first_seed``.

    ``new_attempt``: its first observation begins with a note about the episode before it.
    """

    trajectory: Trajectory
    task: Task
    seed: int | None
    new_attempt: bool = False


def tool_format_of(run: RunFolder, config: Config) -> str:
    """The tool format of tool calls that the environments were told. Reads the model's settings, not its weights.

    Raises ReplayRefused where the model is gone, because its chat template says so.
    """
    if not config.policy.trainable:
        return config.policy.served().chat.tool_format
    try:
        name = str(run.model) if isinstance(config.model, TinyModel) and run.is_complete else started_from(run, config)
        return config.policy.chat(*outlined(name)).tool_format
    except UserError as error:
        raise ReplayRefused(
            f"the model that played is gone, and its chat template says how tools were listed and calls read: {error}"
        ) from error


def refuse_outside(environments: Environments, tasks: Sequence[Task]) -> None:
    """Raise ReplayRefused for the first task whose environment depends on something that cannot be restored."""
    for task in tasks:
        if reason := environments.of(task).outside(task):
            raise ReplayRefused(
                f"task '{task.id}' of '{task.env_id}' cannot be replayed: what it shows depends on {reason}, and that "
                "may do something else than was recorded"
            )


def recorded_episodes(
    environments: Environments, groups: Sequence[ScoredGroup], known: Mapping[str, Trajectory]
) -> list[ReplayableEpisode]:
    """The episodes of ``groups`` with the data to begin them again. ``known``: all episodes of the step, by id.

    Raises ReplayRefused for a task that no longer exists, or asks something else.
    """
    tasks = {group.task.id: _found(environments, group.task) for group in groups}
    refuse_outside(environments, list(tasks.values()))
    return [
        ReplayableEpisode(
            trajectory=one,
            task=tasks[group.task.id],
            seed=first_seed(one, known),
            new_attempt=parent_of(one, known) is not None and shared_parent(one, known) is None,
        )
        for group in groups
        for one in group.trajectories
    ]


def first_seed(one: Trajectory, known: Mapping[str, Trajectory]) -> int | None:
    """The seed of the episode with which the environment of ``one`` began; None if one that it left is not ``known``.

    A branch shares the beginning of its parent, and a retry begins as the tree did that it retries a leaf of; a new
    attempt after another one has a seed of its own.
    """
    if one.parent is None:
        return one.seed
    parent = known.get(one.parent[0])
    if parent is None:
        return None
    if parent_of(one, known) is None:
        return root(parent, known).seed
    return one.seed if shared_parent(one, known) is None else first_seed(parent, known)


async def carried_out(world: World, episode: ReplayableEpisode, tool_format: str) -> Replayed:
    """Carry out the actions of an episode, and cut it short where it was. An error is part of the result."""
    turns, evidence = list[Turn](), list[Evidence]()
    try:
        ending = await _acted(world, episode, tool_format, turns, evidence)
        if ending is None and episode.trajectory.ending.truncated:
            ending = await _cut(world, episode.trajectory.ending, evidence)
    except (EnvError, VerifierError) as problem:
        return Replayed(turns=tuple(turns), evidence=tuple(evidence), ending=None, error=str(problem))
    return Replayed(turns=tuple(turns), evidence=tuple(evidence), ending=ending)


async def _acted(
    world: World, episode: ReplayableEpisode, tool_format: str, turns: list[Turn], evidence: list[Evidence]
) -> Ending | None:
    """Take the recorded turns, adding to ``turns`` and ``evidence``; how the episode ended with one of them, if so."""
    assert episode.seed is not None
    observation, _ = await world.reset(episode.task, derive_seed(episode.seed, "env"), tool_format)
    for number, turn in enumerate(episode.trajectory.turns):
        asked = given_again(turn)
        action = asked if isinstance(asked, Action) else Action(text=asked)
        turns.append(replace(turn, observation=observation, action=action))
        try:
            observation, _, _, _, info = await world.step(asked)
        except AgentFault as fault:  # raised by the pool, as when it was played
            evidence.append(_fault(fault, number))
            return Ending.AGENT_FAULT
        turns[-1] = replace(turns[-1], action=info["action"])
        evidence += info["evidence"]
        if info["ending"] is not None:
            return info["ending"]
    return None


async def _cut(world: World, ending: Ending, evidence: list[Evidence]) -> Ending | None:
    try:
        _, info = await world.finish(ending)
    except AgentFault as fault:
        evidence.append(_fault(fault, None))
        return Ending.AGENT_FAULT
    evidence += info["evidence"]
    return info["ending"]


def _fault(fault: AgentFault, turn: int | None) -> Evidence:
    return Evidence(name=FAULT, value=storable(str(fault), REASON_CHARS), turn=turn)


class Replayer:
    """Replays the stored episodes of a run in its environments.

    ``others`` are the names of facts that examiners record, ``bonuses`` those of payments that a guide adds: neither
    comes from an environment or a rubric, so they are taken from the record.
    """

    def __init__(self, config: Config, environments: Environments, worlds: Worlds, tool_format: str) -> None:
        self._environments, self._worlds, self._tool_format = environments, worlds, tool_format
        self._others = frozenset(name for examiner in config.examine for name in examiner.writes)
        self._bonuses = config.guide.bonuses

    async def groups(
        self,
        step: int,
        phase: str,
        groups: Sequence[ScoredGroup],
        known: Mapping[str, Trajectory],
        counts: ReplayCounts,
        *,
        most: int | None = None,
    ) -> None:
        """Replay the episodes of some groups and count what came of them.

        ``known`` are all episodes of the step by id; ``most``: how many may be replayed in all, those that are counted
        already included. Raises ReplayRefused before anything is played.
        """
        episodes = [one for one in recorded_episodes(self._environments, groups, known) if _playable(one, counts)]
        episodes = episodes if most is None else episodes[: most - counts.replayed]
        found = dict(zip([one.trajectory.id for one in episodes], await self._all(episodes), strict=True))
        scores = {} if not found else self._scored(step if phase in TRAINING else 0, groups, found)
        for one in episodes:
            name = one.trajectory.id
            divergence = first_divergence(one.trajectory, found[name], others=self._others, new_attempt=one.new_attempt)
            counts.add(EpisodeReplay(step=step, phase=phase, id=name, divergence=divergence or scores.get(name)))

    async def _all(self, episodes: Sequence[ReplayableEpisode]) -> list[Replayed]:
        at_once = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(episode: ReplayableEpisode) -> Replayed:
            async with at_once, self._worlds.lease(episode.task) as world:
                return await carried_out(world, episode, self._tool_format)

        try:
            async with asyncio.TaskGroup() as all_:
                tasks = [all_.create_task(one(episode)) for episode in episodes]
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
        return [task.result() for task in tasks]

    def _scored(
        self, step: int, groups: Sequence[ScoredGroup], found: Mapping[str, Replayed]
    ) -> dict[str, ReplayDifference | None]:
        """Where the score of each replayed episode differs from the recorded one."""
        differs: dict[str, ReplayDifference | None] = {}
        for group in groups:
            again = tuple(self._measured(one, found.get(one.id)) for one in group.trajectories)
            try:
                new = self._environments.score(Group(task=group.task, trajectories=again), step)
            except ValueError as error:  # the rubric reads something else today than was recorded
                broken = ReplayDifference(turn=None, what="score", recorded="it was scored", replayed=str(error))
                differs |= {one.id: broken for one in group.trajectories}
                continue
            for one, old, score in zip(group.trajectories, group.scores, new.scores, strict=True):
                differs[one.id] = score_divergence(old, score, others=self._bonuses)
        return differs

    def _measured(self, recorded: Trajectory, found: Replayed | None) -> Trajectory:
        """The episode with the facts of the replay, behind them those of examiners."""
        if found is None or found.ending is None:
            return recorded
        examined = tuple(fact for fact in recorded.evidence if fact.name in self._others)
        return replace(recorded, turns=found.turns, evidence=found.evidence + examined, ending=found.ending)


def _playable(episode: ReplayableEpisode, counts: ReplayCounts) -> bool:
    """Whether an episode can be replayed; else it is counted with the reason."""
    ending = episode.trajectory.ending
    if not ending.usable:
        counts.left_out[f"ended by {ending}, which nothing the agent did caused"] += 1
    elif episode.seed is None:
        counts.left_out["left an episode that is not recorded, so the seed of its environment is not known"] += 1
    else:
        return True
    return False


def _found(environments: Environments, task: Task) -> Task:
    """The recorded task with its private data. Raises ReplayRefused."""
    try:
        found = environments.find(task.id)
    except UserError as error:
        raise ReplayRefused(f"task '{task.id}' is not among the tasks of the run any more: {error}") from error
    if (found.prompt, found.split) != (task.prompt, task.split):
        raise ReplayRefused(
            f"task '{task.id}' is another one now: its prompt was {task.prompt!r:.120} of split '{task.split}', and is "
            f"{found.prompt!r:.120} of split '{found.split}'"
        )
    return found


async def replay_store(
    store: Store,
    replayer: Replayer,
    *,
    phases: Sequence[str],
    step: int | None = None,
    limit: int | None = None,
    told: Callable[[int, int], None] = lambda done, all_: None,
) -> ReplayCounts:
    """Replay the episodes of some phases, of one step or of all, and at most ``limit`` of them.

    ``told`` is called after each step with the number of steps that are done, and of all. Raises ReplayRefused, also
    where no episode could be replayed.
    """
    counts = ReplayCounts()
    steps = store.steps(None) if step is None else [step]
    for done, at in enumerate(steps, start=1):
        known = {one.id: one for group in store.read(at) for one in group.trajectories}
        for phase in phases:
            if at not in store.steps(phase) or (limit is not None and counts.replayed >= limit):
                continue
            await replayer.groups(at, phase, list(store.read(at, phase)), known, counts, most=limit)
        told(done, len(steps))
    if not counts.replayed:
        reasons = "; ".join(f"{n} {reason}" for reason, n in counts.left_out.items()) or "none is recorded"
        raise ReplayRefused(f"no episode of '{store.path}' can be replayed: {reasons}")
    return counts
