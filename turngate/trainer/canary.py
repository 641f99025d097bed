"""Do sampler and learner mean the same model? Asked of the first batch and after every publish.

A sync that did nothing, a missing cache entry, another temperature or a wrong position all show as a difference in the
log-probabilities of the same tokens, while rewards and losses still look plausible. Where it begins says what it is:
from turn 0 on, the weights differ; from turn 1 on, the cache across turns does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turngate.agents.chat import Chat
from turngate.agents.policies.base import Policy
from turngate.errors import MismatchError
from turngate.trainer.learner import Learner
from turngate.trainer.pack import pack_demonstrations
from turngate.types import Batch, Metrics, Request, Source, Trajectory, Turn, derive_seed

PROBE_TOKENS = 6


def check_agreement(batch: Batch, learner: Learner, *, tolerance: float) -> Metrics:
    """Compare ``batch.logprob_L`` (sampler's) with the learner's own, turn by turn. Raises MismatchError."""
    probe = batch.policy_weight_L + batch.ce_weight_L > 0
    recomputed = learner.logprobs(_as_policy(batch, probe))
    difference = np.where(probe, np.abs(recomputed - batch.logprob_L), 0.0)
    n_turns = int(batch.turn_L.max()) + 1 if batch.n_tokens else 0
    per_turn = [float(difference[batch.turn_L == turn].max()) for turn in range(n_turns)]
    for turn, worst in enumerate(per_turn):
        if not worst <= tolerance:  # also true for NaN
            token = int(np.flatnonzero((batch.turn_L == turn) & ~(difference <= tolerance))[0])
            raise MismatchError(
                f"sampler and learner part at turn {turn}: token {batch.ids_L[token]} at position "
                f"{batch.position_L[token]} has logprob {batch.logprob_L[token]:.6f} (sampler) and "
                f"{recomputed[token]:.6f} (learner), tolerance {tolerance:g}; largest difference per turn: "
                + ", ".join(f"{value:.2g}" for value in per_turn)
            )
    return {"canary/max_logprob_difference": max(per_turn, default=0.0)}


async def probe(
    policy: Policy, chat: Chat, trajectories: Sequence[Trajectory], *, temperature: float, seed: int
) -> Batch:
    """Let the sampler speak a few tokens in each turn of recorded episodes, through its cache, as in a rollout.

    The observations are the recorded ones; what the sampler says between them is new. Meaning does not matter here.
    """
    spoken = []
    async with policy.lane():
        for number, trajectory in enumerate(trajectories):
            name = f"probe {number} of {trajectory.id}"
            episode = replace(trajectory, id=name, turns=(), seed=derive_seed(seed, number))
            try:
                for turn in trajectory.turns:
                    said = await _speak(policy, chat, episode, turn, temperature)
                    episode = replace(episode, turns=(*episode.turns, said))
            finally:
                policy.release(episode.id)
            spoken.append(episode)
    return pack_demonstrations(spoken)


async def _speak(policy: Policy, chat: Chat, so_far: Trajectory, recorded: Turn, temperature: float) -> Turn:
    """What the sampler says now, after ``so_far``, to the recorded observation."""
    text, number = recorded.observation.text, len(so_far.turns)
    context = chat.follow_up(text, so_far.turns[-1].completion.ended_by) if number else chat.opening(text)
    completion = await policy.complete(
        Request(
            episode=so_far.id,
            task_id=so_far.task.id,
            ids=np.concatenate([so_far.ids(), context]),
            turn=number,
            seed=derive_seed(so_far.seed, number),
            max_tokens=PROBE_TOKENS,
            temperature=temperature,
        )
    )
    source = np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [len(context), len(completion.ids_K)])
    return replace(recorded, context_ids=context, completion=completion, source=source)


def longest(trajectories: Sequence[Trajectory], n: int) -> list[Trajectory]:
    """The ``n`` with most turns: the longest caches are where errors of bookkeeping show."""
    return sorted(trajectories, key=lambda trajectory: (-len(trajectory.turns), trajectory.id))[:n]


def _as_policy(batch: Batch, probe: np.ndarray) -> Batch:
    return replace(batch, policy_weight_L=probe.astype(np.float32), ce_weight_L=np.zeros(batch.n_tokens, np.float32))
