"""Is the policy still what it is taken for? Two questions, asked of a few episodes in every step.

Do sampler and learner mean the same model? Asked of the first batch and after every publish.

A sync that did nothing, a missing cache entry, another temperature or a wrong position all show as a difference in the
log-probabilities of the same tokens, while rewards and losses still look plausible. Where it begins says what it is:
from turn 0 on, the weights differ; from turn 1 on, the cache across turns does.

Did the updates of the step ruin it? With a learning rate that is far too high rewards fall to nothing, after which
nothing is left to learn from, and every number that is measured on-policy looks calm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turngate.agents.rollout import Player
from turngate.errors import MismatchError, RunError
from turngate.trainer.learner import Learner
from turngate.trainer.pack import pack_demonstrations
from turngate.types import Batch, Metrics, Request, Source, Trajectory, Turn, derive_seed

PROBE_TOKENS = 6
BORDER_TOKENS = 10  # how many tokens may stand within a tolerance of 1 of a cut: about as many as a cut usually keeps
BORDER_SHARE = 0.01  # never more than that
MOVED_SEGMENTS = 8  # episodes on which it is measured how far an update moves the policy


def check_agreement(
    batch: Batch, learner: Learner, *, tolerance: float, truncates: bool = False, rounding: str = ""
) -> Metrics:
    """Compare ``batch.logprob_L`` (sampler's) with the learner's own, turn by turn. Raises MismatchError.

    ``truncates``: the sampler cuts its distribution (top-p, top-k). Rounding then puts a token that stands on the cut
    on one side for the sampler and on the other for the learner (measured in float32: one token in 100,000), which
    moves the logprob of that position by the mass of one token, whatever the tolerance. So
    1 + min(10·tolerance, 1 %)·tokens positions may part; ``canary/borderline_tokens`` says how many did. A sampler and
    a learner of different weights, temperature, cache or truncation part nearly everywhere. ``rounding`` ends the
    message: what to do if the two do no more than round differently.
    """
    probe = batch.policy_weight_L + batch.ce_weight_L > 0
    recomputed = learner.logprobs(_as_policy(batch, probe))
    difference = np.where(probe, np.abs(recomputed - batch.logprob_L), 0.0)
    excused = _borderline(difference, probe, tolerance) if truncates else np.zeros_like(probe)
    difference[excused] = 0.0
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
                + (f"; {rounding}" if rounding else "")
            )
    found = {"canary/borderline_tokens": float(excused.sum())} if truncates else {}
    return {"canary/max_logprob_difference": max(per_turn, default=0.0)} | found


class Moved:
    """How far updates move the policy: made before the first of them, asked after the last."""

    def __init__(self, batch: Batch, learner: Learner) -> None:
        self._batch, self._learner = _spread(batch, MOVED_SEGMENTS), learner
        self._before = learner.logprobs(self._batch, whole=True)

    def check(self, updated: Metrics, *, limit: float) -> Metrics:
        """``learner/update_kl_nats``: mean of log p before − log p after over the tokens of some episodes.

        ``updated``: what the updates measured. Raises RunError beyond ``limit``, and where it is no number.
        """
        spoken = self._batch.policy_weight_L != 0
        if not spoken.any():
            return {}
        after = self._learner.logprobs(self._batch, whole=True)
        with np.errstate(invalid="ignore"):  # inf − inf
            kl = float(np.mean(self._before[spoken].astype(np.float64) - after[spoken]))
        if not kl <= limit:  # also true for NaN
            lr, norm = updated.get("learner/lr", np.nan), updated.get("learner/grad_norm", np.nan)
            raise RunError(
                f"the updates of this step moved the policy by {kl:.3g} nats per token (learner.max_kl is {limit:g}), "
                f"which ruins it: learner.lr {lr:g} is too high (gradient norm {norm:.3g}); lower it and start a run "
                "of another name"
            )
        return {"learner/update_kl_nats": kl}


def _spread(batch: Batch, n: int) -> Batch:
    """``n`` of its segments, evenly spread, or all of a smaller one."""
    if batch.n_segments <= n:
        return batch
    chosen = np.isin(batch.segment_L, np.linspace(0, batch.n_segments - 1, n).round())
    own = {name: getattr(batch, name)[chosen] for name in batch.__dataclass_fields__}
    own["segment_L"] = np.unique(own["segment_L"], return_inverse=True)[1].astype(np.int32)
    return Batch(**own)


def _borderline(difference: np.ndarray, probe: np.ndarray, tolerance: float) -> np.ndarray:
    """Positions that part because a token stands on the cut, bool[L]: all that part, if they are few. Never NaN."""
    parted = difference > tolerance
    allowed = 1 + min(BORDER_TOKENS * tolerance, BORDER_SHARE) * int(probe.sum())
    return parted if parted.sum() <= allowed else np.zeros_like(parted)


async def probe(player: Player, trajectories: Sequence[Trajectory], *, seed: int) -> Batch:
    """Let the sampler speak a few tokens in each turn of recorded episodes, through its cache, as in a rollout.

    The observations are the recorded ones; what the sampler says between them is new. Meaning does not matter here.
    """
    spoken, policy = [], player.policy
    async with policy.lane():
        for number, trajectory in enumerate(trajectories):
            name = f"probe {number} of {trajectory.id}"
            episode = replace(trajectory, id=name, turns=(), seed=derive_seed(seed, number))
            try:
                for turn in trajectory.turns:
                    said = await _speak(player, episode, turn)
                    episode = replace(episode, turns=(*episode.turns, said))
            finally:
                policy.release(episode.id)
            spoken.append(episode)
    return pack_demonstrations(spoken)


async def _speak(player: Player, so_far: Trajectory, recorded: Turn) -> Turn:
    """What the sampler says now, after ``so_far``, to the recorded observation."""
    text, number, chat = recorded.observation.text, len(so_far.turns), player.chat
    context = chat.follow_up(text, so_far.turns[-1].completion.ended_by) if number else chat.opening(text)
    completion = await player.policy.complete(
        Request(
            episode=so_far.id,
            task_id=so_far.task.id,
            ids=np.concatenate([so_far.ids(), context]),
            turn=number,
            seed=derive_seed(so_far.seed, number),
            max_tokens=PROBE_TOKENS,
            sampling=player.sampling,
        )
    )
    source = np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [len(context), len(completion.ids_K)])
    return replace(recorded, context_ids=context, completion=completion, source=source)


def longest(trajectories: Sequence[Trajectory], n: int) -> list[Trajectory]:
    """The ``n`` with most turns: the longest caches are where errors of bookkeeping show."""
    return sorted(trajectories, key=lambda trajectory: (-len(trajectory.turns), trajectory.id))[:n]


def _as_policy(batch: Batch, probe: np.ndarray) -> Batch:
    return replace(batch, policy_weight_L=probe.astype(np.float32), ce_weight_L=np.zeros(batch.n_tokens, np.float32))
