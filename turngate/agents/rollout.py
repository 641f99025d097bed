"""Plays episodes: many at once, each at its own speed.

A *slot* plays one episode after another. While the environment of one episode steps, the policy decodes for the others;
when an episode ends, its slot begins the next one at once. An error inside an episode ends that episode only, with an
ending that says what broke.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np

from turngate.agents.chat import Chat, n_shared
from turngate.agents.few_shot import messages_of
from turngate.agents.given import Given, environment_completion
from turngate.agents.handoff import Actor, Handoff
from turngate.agents.policies.answers import complete
from turngate.agents.policies.base import Policy
from turngate.agents.prefix_turns import Entry, PrefixTurns
from turngate.errors import AgentFault, ConfigError, EnvError, OutOfRoom, PolicyError, VerifierError
from turngate.types import (
    FAULT,
    JSON,
    PLAIN,
    Action,
    BoolArray,
    Completion,
    Ending,
    Evidence,
    Group,
    Guidance,
    Info,
    IntArray,
    Message,
    Observation,
    Request,
    Sampling,
    Source,
    Task,
    Trajectory,
    Turn,
    derive_seed,
    storable,
)

REASON_CHARS = 2_000
"""Most characters of an error message that are recorded for a broken episode."""


class World(Protocol):
    """One environment, called from a coroutine (see ``turngate.envs.pool.pool``)."""

    async def reset(self, task: Task, seed: int, tool_format: str = "") -> tuple[Observation, Info]:
        """Begin an episode in which the policy writes calls in ``tool_format``: its first observation, and info."""
        ...

    async def step(self, action: Given) -> tuple[Observation, float, bool, bool, Info]:
        """One turn: observation, reward, terminated, truncated, info."""
        ...

    async def finish(self, ending: Ending) -> tuple[float, Info]:
        """End the episode now: the rest of the reward, and info."""
        ...

    async def snapshot(self) -> object:
        """The running episode at this moment, if the environment can be forked exactly."""
        ...

    async def restore(self, snapshot: object) -> None:
        """Continue from a snapshot, also of another environment of the same kind."""
        ...


class Worlds(Protocol):
    """Environments to borrow."""

    size: int

    @property
    def env_time_s(self) -> float:
        """Seconds inside calls of all of them so far, which may exceed the wall time."""
        ...

    def lease(self, task: Task) -> AbstractAsyncContextManager[World]:
        """Borrow one for ``task``; waits while all that can play it are in use."""
        ...

    def free(self, task: Task) -> bool:
        """Whether ``lease`` would return at once."""
        ...


def ignore(what: object) -> None:
    """Default callback: does nothing when an episode or a group ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """Limits of an episode. ``turn_tokens``: most tokens of one completion; ``context``: most tokens of a whole
    episode; ``episode_s``: seconds after which no further turn begins."""

    turn_tokens: int
    context: int
    episode_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode to play: its task, the seed of environment and sampling, and the help it gets, if any.

    ``prefix``: turns that come before the policy's first; ``handoff``: turns that another policy takes. ``guidance`` is
    then that of these turns.
    """

    id: str
    task: Task
    seed: int
    guidance: Guidance | None = None
    prefix: PrefixTurns | None = None
    handoff: Handoff | None = None

    @property
    def env_seed(self) -> int:
        """The seed that the environment is reset with: a retry begins as the episode that it retries."""
        again = None if self.prefix is None else self.prefix.seed
        return derive_seed(self.seed if again is None else again, "env")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStart:
    """Where the policy enters an episode: what it sees next, and what was played, said and measured before.

    ``turns`` belong to the episode, ``said`` are the turns that its context shows: the same, unless the policy is shown
    turns of another episode. ``context``: the tokens that come next, of which ``hint`` says which are a hint's; None =
    the observation as the chat frames it.
    """

    observation: Observation
    tools: tuple[Mapping[str, JSON], ...]
    turns: tuple[Turn, ...] = ()
    said: tuple[Turn, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    context: IntArray | None = None
    hint: BoolArray | None = None
    parent: tuple[str, int] | None = None


def with_hint(frame: Callable[..., IntArray], hint: str) -> tuple[IntArray, BoolArray]:
    """What ``frame`` puts around an observation and the ``hint`` behind it ("" = none), and which ids are the hint's.

    Without these the ids are as if there were no hint.
    """
    bare = frame()
    ids = frame(hint=hint) if hint else bare
    place = n_shared(ids.tolist(), bare.tolist())
    hint_L = np.zeros(len(ids), np.bool_)
    hint_L[place : place + len(ids) - len(bare)] = True
    return ids, hint_L


@dataclass(slots=True)
class _Play:
    """An episode that is being played: what has been said and recorded so far."""

    episode: Episode
    parent: tuple[str, int] | None = None
    tools: tuple[Mapping[str, JSON], ...] = ()
    ids: list[IntArray] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    hint: BoolArray | None = None

    def framed(self, frame: Callable[..., IntArray]) -> IntArray:
        """The next context, with the hint that belongs here, if any; ``hint`` then marks the hint's ids."""
        ids, self.hint = with_hint(frame, hint_before(self.episode, len(self.turns)))
        return ids

    @property
    def n_tokens(self) -> int:
        return sum(len(part) for part in self.ids)

    @property
    def prefix(self) -> PrefixTurns | None:
        """The prefix turns that the next turn belongs to; None = it is none of them."""
        prefix = self.episode.prefix
        return prefix if prefix is not None and len(self.turns) < len(prefix.turns) else None

    @property
    def other(self) -> Actor | None:
        """The other policy that takes the next turn (a handoff); None = it is not handed over."""
        handoff = self.episode.handoff
        return handoff.actor if handoff is not None and handoff.takes(len(self.turns)) else None

    @property
    def is_whole(self) -> bool:
        """Whether all turns of an episode that consists of prefix turns alone are taken."""
        prefix = self.episode.prefix
        return prefix is not None and prefix.whole and len(self.turns) == len(prefix.turns)

    @property
    def is_unbegun(self) -> bool:
        """Whether the policy took no turn: none was taken at all, or prefix turns only."""
        prefix = self.episode.prefix
        return len(self.turns) <= (0 if prefix is None or prefix.whole else len(prefix.turns))

    def fail(self, fault: AgentFault, *, turn: int | None) -> Ending:
        self.evidence.append(Evidence(name=FAULT, value=storable(str(fault), REASON_CHARS), turn=turn))
        return Ending.AGENT_FAULT

    def end(self, ending: Ending, error: str = "") -> Trajectory:
        episode = self.episode
        return Trajectory(
            id=episode.id,
            task=episode.task,
            turns=tuple(self.turns),
            ending=ending,
            seed=episode.seed,
            evidence=tuple(self.evidence),
            guidance=episode.guidance,
            parent=self.parent,
            error=storable(error, REASON_CHARS),
        )


class Player:
    """Plays episodes with a policy: its chat format, the limits of an episode, and how tokens are sampled.

    ``n_tokens``: size of the model's vocabulary; None where it is not known.
    """

    def __init__(
        self,
        policy: Policy,
        chat: Chat,
        limits: TokenLimits,
        *,
        sampling: Sampling = PLAIN,
        n_tokens: int | None = None,
    ) -> None:
        self.policy, self.chat, self.limits, self.sampling = policy, chat, limits, sampling
        self.n_tokens = n_tokens

    def greedy(self) -> Player:
        """The same player, but it always takes the most likely token (temperature 0)."""
        return self._sampling(Sampling(temperature=0.0))

    def at(self, temperature: float) -> Player:
        """The same player at another temperature."""
        return self._sampling(replace(self.sampling, temperature=temperature))

    def talking(self, chat: Chat) -> Player:
        """The same player with another chat, which shows other examples."""
        return Player(self.policy, chat, self.limits, sampling=self.sampling, n_tokens=self.n_tokens)

    def _sampling(self, sampling: Sampling) -> Player:
        return Player(self.policy, self.chat, self.limits, sampling=sampling, n_tokens=self.n_tokens)

    async def play(
        self, worlds: Worlds, episodes: Sequence[Episode], *, ended: Callable[[Trajectory], None] = ignore
    ) -> list[Trajectory]:
        """Play all episodes, as many at once as policy and environments allow. Returns them in the order given.

        ``ended`` is called with each trajectory as soon as its episode ends. An EpisodeError ends its episode only; any
        other error stops all episodes and is raised, also ConfigError for the first observation with an image that the
        policy does not take. Raises ValueError for two episodes with the same id.
        """
        twice = [name for name, count in Counter(episode.id for episode in episodes).items() if count > 1]
        if twice:
            raise ValueError(f"two episodes have the id '{twice[0]}'; ids must differ, for instance by sibling or seed")
        results: dict[str, Trajectory] = {}
        queue = list(episodes)
        n_slots = min(len(episodes), self.policy.concurrency, worlds.size)
        try:
            async with asyncio.TaskGroup() as slots:
                for _ in range(n_slots):
                    slots.create_task(self._slot(worlds, queue, results, ended))
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            raise first from first.__cause__
        return [results[episode.id] for episode in episodes]

    async def _slot(
        self,
        worlds: Worlds,
        queue: list[Episode],
        results: dict[str, Trajectory],
        ended: Callable[[Trajectory], None],
    ) -> None:
        while queue:
            # The first that need not wait, so that environments of one kind which are all in use hold up no other.
            index = next((i for i, episode in enumerate(queue) if worlds.free(episode.task)), 0)
            episode = queue.pop(index)
            # A slot of the policy only with an environment in hand: an engine may wait until every slot wants a token.
            async with worlds.lease(episode.task) as world, self.policy.slot():
                results[episode.id] = await self._play_one(world, episode)
            ended(results[episode.id])

    async def _play_one(self, world: World, episode: Episode) -> Trajectory:
        play = _Play(episode)
        try:
            return play.end(await self._turns(world, play))
        except VerifierError as error:
            return play.end(Ending.VERIFIER_ERROR, str(error))
        except EnvError as error:
            return play.end(Ending.ENV_ERROR, str(error))
        except PolicyError as error:
            return play.end(Ending.POLICY_ERROR, str(error))
        finally:
            self.policy.release(episode.id)

    async def _turns(self, world: World, play: _Play) -> Ending:
        episode, outside = play.episode, self.policy.outside
        start_s = time.monotonic()
        start = await outside(self._enter(world, episode))
        frames = self.chat.frames(start.tools, episode.task.env_id)
        observation, context, play.hint = start.observation, start.context, start.hint
        message = self._begin(play, start)
        if context is None:
            context = play.framed(partial(frames.opening, observation.text))
        while True:
            if (needed := play.n_tokens + len(context) + self.limits.turn_tokens) > self.limits.context:
                if play.is_unbegun:
                    raise PolicyError(
                        f"the policy had no turn: the first prompt and a turn of {self.limits.turn_tokens} tokens need "
                        f"{needed}, and the context has {self.limits.context}; raise policy.context, or leave such "
                        "tasks out"
                    )
                return await self._cut(world, play, Ending.TOKEN_BUDGET)
            if (elapsed_s := time.monotonic() - start_s) > self.limits.episode_s:
                if play.is_unbegun:
                    limit = f"an episode may take {self.limits.episode_s:g} s"
                    raise EnvError(f"the policy had no turn: the start took {elapsed_s:.0f} s, and {limit}")
                return await self._cut(world, play, Ending.TIME_BUDGET)
            play.ids.append(context)
            play.messages.append(message)
            try:
                completion = await self._next_completion(play)
            except OutOfRoom:
                if play.is_unbegun:  # nothing that the policy did; recorded as what it is, a failure of the sampler
                    raise
                return await self._cut(world, play, Ending.TOKEN_BUDGET)
            play.ids.append(completion.ids_K)
            asked = environment_completion(completion) if play.prefix is None else play.prefix.turns[len(play.turns)]
            try:
                reply, _, terminated, truncated, info = await outside(self._step(world, episode, asked))
            except AgentFault as fault:  # raised by the pool: the environment hung, or its process died
                action = asked if isinstance(asked, Action) else Action(text=asked)
                play.turns.append(self._turn(play, observation, context, completion, action))
                return play.fail(fault, turn=len(play.turns) - 1)
            play.evidence += info["evidence"]
            prefix, learned = play.prefix, info.get("learned", True)
            play.turns.append(self._turn(play, observation, context, completion, info["action"], learned=learned))
            if prefix is not None:
                prefix.check_key(len(play.turns) - 1, reply.state_key)
            if terminated or truncated:
                assert info["ending"] is not None  # the contract of ``step``
                return info["ending"]
            if play.is_whole:
                return await self._cut(world, play, Ending.MAX_TURNS)
            observation, calls = reply, info["action"].calls
            play.messages.append(_assistant(play.turns[-1]))
            hint = hint_before(episode, len(play.turns))
            message = self._message(play, observation, answers=bool(calls), hint=hint)
            answered = calls[-1].name if calls else ""
            follow_up = partial(frames.follow_up, observation.text, completion.ended_by, answered=answered)
            context = play.framed(follow_up)

    async def _next_completion(self, play: _Play) -> Completion:
        """The next turn: the policy's, another policy's or a prefix turn. Raises OutOfRoom for one that does not
        fit."""
        if play.other is not None:
            completion = await self.policy.outside(play.other.act(self._request(play), self.chat))
        elif play.prefix is not None:
            completion = play.prefix.completion(len(play.turns), self.chat, self.policy.version)
        else:
            return await complete(self.policy, self._request(play), n_tokens=self.n_tokens)
        if play.n_tokens + len(completion.ids_K) > self.limits.context:
            raise OutOfRoom(f"turn {len(play.turns)} has {len(completion.ids_K)} tokens, more than are left")
        return completion

    async def _enter(self, world: World, episode: Episode) -> EpisodeStart:
        """Put the environment where the policy enters the episode."""
        prefix = episode.prefix
        observation, info = await world.reset(episode.task, episode.env_seed, self.chat.tool_format)
        return EpisodeStart(
            observation=observation, tools=info["tools"], parent=None if prefix is None else prefix.parent
        )

    async def _step(self, world: World, episode: Episode, asked: Given) -> tuple[Observation, float, bool, bool, Info]:
        """One turn of the environment."""
        return await world.step(asked)

    def _begin(self, play: _Play, start: EpisodeStart) -> Message:
        """Take over what was before the start; the message of its observation."""
        play.tools = start.tools if self.chat.tool_format else ()
        play.parent, play.turns = start.parent, list(start.turns)
        play.evidence = list(start.evidence)
        play.ids = [part for turn in start.turns for part in (turn.context_ids, turn.completion.ids_K)]
        if told := self.chat.system_text(start.tools):
            play.messages.append(Message(role="system", content=told))
        play.messages += messages_of(self.chat.examples.get(play.episode.task.env_id, ()), tools=bool(play.tools))
        answers = False
        for turn in start.said:
            shown = f"\n{turn.guidance.text}" if turn.guidance is not None else ""
            play.messages += [self._message(play, turn.observation, answers=answers, hint=shown), _assistant(turn)]
            answers = bool(turn.action.calls)
        hint = hint_before(play.episode, len(play.turns))
        return self._message(play, start.observation, answers=answers and bool(start.turns), hint=hint)

    async def _cut(self, world: World, play: _Play, ending: Ending) -> Ending:
        try:
            _, info = await self.policy.outside(world.finish(ending))
        except AgentFault as fault:
            return play.fail(fault, turn=None)
        play.evidence += info["evidence"]
        assert info["ending"] is not None  # the contract of ``finish``
        return info["ending"]

    def _request(self, play: _Play) -> Request:
        turn, prefix, sampling = len(play.turns), play.episode.prefix, self.sampling
        if prefix is not None and prefix.temperature is not None:
            sampling = replace(sampling, temperature=prefix.temperature)
        return Request(
            episode=play.episode.id,
            task_id=play.episode.task.id,
            ids=np.concatenate(play.ids),
            turn=turn,
            seed=derive_seed(play.episode.seed, turn),
            max_tokens=self.limits.turn_tokens,
            sampling=sampling,
            messages=tuple(play.messages),
            tools=play.tools,
        )

    def _message(self, play: _Play, observation: Observation, *, answers: bool, hint: str) -> Message:
        """An observation as a message to the policy. Raises ConfigError for images that it does not take."""
        turn, n_images = len(play.turns), len(observation.images)
        if n_images and not self.policy.takes_images:
            raise ConfigError(
                f"policy '{self.policy.name or type(self.policy).__name__}' takes no images; the observation of turn "
                f"{turn} of task '{play.episode.task.id}' has {n_images}. Use a policy that takes them, such as "
                'policy.type = "openai" in turngate eval, or an environment that shows text'
            )
        return Message(
            role="tool" if answers and play.tools else "user",
            content=observation.text + hint,
            images=observation.images,
        )

    @staticmethod
    def _turn(
        play: _Play,
        observation: Observation,
        context: IntArray,
        completion: Completion,
        action: Action,
        *,
        learned: bool = True,
    ) -> Turn:
        """``learned``: whether the tokens of the completion carry credit; else they count as context."""
        source = np.full(len(context) + len(completion.ids_K), Source.CONTEXT, np.uint8)
        if play.prefix or play.other or learned:
            source[len(context) :] = Source.GUIDE if play.prefix or play.other else Source.POLICY
        guidance = play.episode.guidance
        if play.hint is not None:
            source[: len(context)][play.hint] = Source.GUIDE
        shown = guidance is not None and bool(guidance.text) and guidance.insert_turn == len(play.turns)
        return Turn(
            observation=observation,
            context_ids=context,
            completion=completion,
            source=source,
            action=action,
            guidance=guidance if shown else None,
        )


def hint_before(episode: Episode, turn: int) -> str:
    """The hint behind the observation before ``turn``; "" without one."""
    guidance = episode.guidance
    given = guidance is not None and guidance.insert_turn == turn and guidance.text
    return f"\n{given}" if given else ""


async def play_groups(
    player: Player,
    worlds: Worlds,
    tasks: Sequence[Task],
    plans: Sequence[Sequence[Entry]],
    *,
    seed: int,
    ended: Callable[[Group], None] = ignore,
) -> list[Group]:
    """Play one group per task, with one sibling per entry of its plan: its help or its prefix turns, None for neither.

    ``seed`` must differ from step to step. ``ended`` is called with each group as soon as its last episode has ended,
    while others are still being played.
    """
    groups = [
        (task, [episode_of(task, n, entry, seed) for n, entry in enumerate(plan)])
        for task, plan in zip(tasks, plans, strict=True)
    ]
    group_of = {episode.id: place for place, (_, siblings) in enumerate(groups) for episode in siblings}
    played: dict[str, Trajectory] = {}

    def group(place: int) -> Group:
        task, siblings = groups[place]
        return Group(task=task, trajectories=tuple(played[episode.id] for episode in siblings))

    def one_ended(trajectory: Trajectory) -> None:
        played[trajectory.id] = trajectory
        place = group_of[trajectory.id]
        if all(episode.id in played for episode in groups[place][1]):
            ended(group(place))

    await player.play(worlds, [episode for _, siblings in groups for episode in siblings], ended=one_ended)
    return [group(place) for place in range(len(groups))]


def _assistant(turn: Turn) -> Message:
    """The policy's words in a turn, as a message."""
    return Message(role="assistant", content=turn.completion.text, calls=turn.action.calls)


def episode_of(task: Task, sibling: int, entry: Entry, seed: int) -> Episode:
    """The episode that an entry of a plan asks for; ``sibling``: its place in the plan."""
    return Episode(
        id=f"{task.id}#{sibling}@{seed:x}",
        task=task,
        seed=derive_seed(seed, task.id, sibling),
        guidance=entry.guidance if isinstance(entry, PrefixTurns | Handoff) else entry,
        prefix=entry if isinstance(entry, PrefixTurns) else None,
        handoff=entry if isinstance(entry, Handoff) else None,
    )
