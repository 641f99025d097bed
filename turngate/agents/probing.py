"""Probing: asking the policy, at a turn of a recorded episode, what it would say if it had to answer now.

The text of a probe is appended to the recorded tokens as the assistant's own words, and the policy samples on from
there. No environment takes part and the trajectory is not changed; only the new words are tokenised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.policies.answers import complete
from turngate.agents.rollout import Player
from turngate.errors import PolicyError, ShapeError
from turngate.types import Completion, IntArray, Request, Sampling, Trajectory, derive_seed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe of a recorded episode: the assistant is made to say ``text`` after ``turn``, and ``n`` continuations of
    at most ``max_tokens`` tokens are sampled.

    ``reply``: whether the environment's answer to the turn comes before ``text`` (see ``ids_after``). ``temperature``:
    that of the samples, which are drawn from the whole vocabulary.
    """

    trajectory: Trajectory
    turn: int
    text: str
    n: int = 5
    max_tokens: int = 10
    temperature: float = 0.6
    reply: bool = True


def ids_after(trajectory: Trajectory, turn: int, chat: Chat, *, reply: bool = True, words: bool = True) -> IntArray:
    """All tokens up to and including ``turn``, so that the assistant speaks next: int32[L].

    With ``reply``, the environment's answer to the turn follows, and the assistant begins a new turn. Without it the
    assistant continues its words of ``turn``, whose end-of-turn token is left out; so it does after the last turn,
    whose answer is not recorded. ``words=False`` leaves out all that the assistant wrote except end-of-turn tokens,
    which gives the same observations without its reasoning. Raises ShapeError for a turn that the episode does not
    have.
    """
    n_turns = len(trajectory.turns)
    if not 0 <= turn < n_turns:
        raise ShapeError(f"trajectory '{trajectory.id}' has {n_turns} turns, counted from 0; there is no turn {turn}")
    if not len(trajectory.turns[0].context_ids):
        raise ShapeError(
            f"trajectory '{trajectory.id}' has no token ids, because a server that returns only text played it; probe "
            "episodes of a local policy"
        )
    parts: list[IntArray] = []
    for one in trajectory.turns[: turn + 1]:
        said = one.completion.ids_K
        parts += [one.context_ids, said if words else said[len(chat.open(said)) :]]
    if reply and turn + 1 < n_turns:
        parts.append(trajectory.turns[turn + 1].context_ids)
    else:
        parts[-1] = chat.open(parts[-1])
    return np.concatenate(parts).astype(np.int32)


async def probe(player: Player, asks: Sequence[Probe], *, seed: int) -> list[list[Completion]]:
    """The policy's answers to each question: up to ``n`` completions each, in order.

    A sample depends on nothing but ``seed``, the trajectory's id, the turn and its number. A question that does not fit
    into the player's context gets no completion, and a sample that the sampler failed to give is left out. The
    questions are episodes of their own for the engine, forgotten when answered, so the caches of live episodes stay as
    they are; but they take up slots.
    """
    found: dict[tuple[int, int], Completion] = {}
    queue = _requests(player, asks, seed, call=id(found))
    policy = player.policy

    async def slot() -> None:
        async with policy.slot():
            for place, request in queue:
                try:
                    found[place] = await complete(policy, request)
                except PolicyError as error:
                    log.warning("no answer to %s: %s", request.episode, error)
                finally:
                    policy.release(request.episode)

    try:
        async with asyncio.TaskGroup() as slots:
            for _ in range(min(sum(ask.n for ask in asks), policy.concurrency)):
                slots.create_task(slot())
    except BaseExceptionGroup as errors:
        first = errors.exceptions[0]
        raise first from first.__cause__
    return [
        [found[number, sample] for sample in range(ask.n) if (number, sample) in found]
        for number, ask in enumerate(asks)
    ]


def _requests(
    player: Player, asks: Sequence[Probe], seed: int, *, call: int
) -> Iterator[tuple[tuple[int, int], Request]]:
    """(number of the question, number of the sample) and the request, for all questions that fit.

    ``call`` differs between calls that are under way at the same time: an engine tells episodes apart by name.
    """
    for number, ask in enumerate(asks):
        trajectory, turn, chat = ask.trajectory, ask.turn, player.chat
        ids = np.concatenate([ids_after(trajectory, turn, chat, reply=ask.reply), chat.encode_turn(ask.text)[:-1]])
        if len(ids) + ask.max_tokens > player.limits.context:
            continue
        for sample in range(ask.n):
            yield (
                (number, sample),
                Request(
                    episode=f"question {call:x}.{number}.{sample} after turn {turn} of {trajectory.id}",
                    task_id=trajectory.task.id,
                    ids=ids,
                    turn=turn,
                    seed=derive_seed(seed, trajectory.id, turn, sample),
                    max_tokens=ask.max_tokens,
                    sampling=Sampling(temperature=ask.temperature),
                ),
            )
