"""Canaries: two checks in every step, on a few episodes, that find a broken training loop early.

Do sampler and learner hold the same model? Checked on the first batch of a run and after every publish. A publish that
changed nothing, a missing cache entry, another temperature or a wrong position all show as different log-probabilities
of the same tokens, while rewards and losses still look plausible. The first turn that differs points to the cause: from
turn 0 on, the weights differ; from turn 1 on, the sampler's cache across turns does.

Did the updates of the step ruin the policy? With a learning rate that is far too high rewards fall to nothing. There is
then nothing left to learn from, and the numbers that are measured on-policy look calm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from turngate.agents.policies.answers import complete
from turngate.agents.rollout import Player
from turngate.errors import MismatchError, RunError
from turngate.trainer.batch.contexts import Origin
from turngate.trainer.batch.pack import only_segments, pack_demonstrations
from turngate.trainer.learner import Learner
from turngate.types import Batch, BoolArray, Metrics, Request, Source, Trajectory, Turn, derive_seed

PROBE_TOKENS = 6
BORDER_TOKENS = 10  # tokens at the border of top-p or top-k that may differ, per unit of tolerance
BORDER_SHARE = 0.01  # largest share of tokens that may differ there, whatever the tolerance
MEAN_APART = 0.1
"""Most that sampler and learner may differ on the mean, in nats, under a tolerance that is itself larger: rounding to
bfloat16 moves single tokens by most of a nat, and the mean by 0.02 to 0.08 (random weights of 6 layers, plain and very
sure of their tokens)."""
MEAN_SHARE = 0.1
"""The same as a share of a tolerance above 1."""
KL_SEGMENTS = 8  # episodes on which it is measured how far the updates of a step move the policy


def check_agreement(
    batch: Batch, learner: Learner, *, tolerance: float, truncates: bool = False, rounding: str = ""
) -> Metrics:
    """Compare ``batch.logprob_L``, the sampler's, with the learner's own log-probabilities, turn by turn.

    Tokens that were written under another context than they are learned in, by an expert, or by the policy of an
    earlier step or another run, are left out; where no others are there, nothing is compared and no metric returned.
    Raises MismatchError where a token differs by more than ``tolerance`` nats, or all tokens but the one that differs
    most by more than ``mean_limit(tolerance)`` on the mean: a tolerance that is wide enough for outliers of rounding
    would excuse a sampler that is a little off everywhere, such as one that a push did not reach. ``rounding`` is added
    to the message as advice for the case that the two only round differently.

    ``truncates`` says that the sampler uses top-p or top-k. A token at the border of what these keep can then fall on
    different sides for sampler and learner, by rounding alone (in float32 about one token in 100,000). That changes the
    log-probability at its position by more than any tolerance. So 1 + min(10·tolerance, 1 %)·tokens positions may
    differ; ``canary/borderline_tokens`` says how many did. Different weights, temperatures, caches or truncations
    differ at nearly every position.
    """
    probe = (batch.policy_weight_L + batch.ce_weight_L > 0) & (batch.origin_L == Origin.OWN)
    if not probe.any() and batch.n_tokens:
        return {}
    recomputed = learner.logprobs(_as_policy(batch, probe))
    difference = np.where(probe, np.abs(recomputed - batch.logprob_L), 0.0)
    excused = _borderline(difference, probe, tolerance) if truncates else np.zeros_like(probe)
    difference[excused] = 0.0
    of_probe = difference[probe]
    n_turns = int(batch.turn_L.max()) + 1 if batch.n_tokens else 0
    per_turn = [float(difference[batch.turn_L == turn].max()) for turn in range(n_turns)]
    mean, limit = _mean_of_others(of_probe), mean_limit(tolerance)
    far = ~(difference <= tolerance)  # also true for NaN
    if mean > limit and not far.any():
        turns = np.unique(batch.turn_L[probe])
        beyond = [turn for turn in turns if difference[probe & (batch.turn_L == turn)].mean() > limit]
        far = (difference > limit) & np.isin(batch.turn_L, beyond)
    if far.any():
        token = int(np.flatnonzero(far & (batch.turn_L == batch.turn_L[far].min()))[0])
        raise MismatchError(
            f"sampler and learner differ at turn {batch.turn_L[token]}: token {batch.ids_L[token]} at position "
            f"{batch.position_L[token]} has logprob {batch.logprob_L[token]:.6f} (sampler) and "
            f"{recomputed[token]:.6f} (learner); the largest difference is {of_probe.max():.2g} nats (tolerance "
            f"{tolerance:g}), the mean of all others {mean:.2g} (at most {limit:g}); largest difference per turn: "
            + ", ".join(f"{value:.2g}" for value in per_turn)
            + (f"; {rounding}" if rounding else "")
        )
    found = {"canary/borderline_tokens": float(excused.sum())} if truncates else {}
    return {
        "canary/max_logprob_difference": max(per_turn, default=0.0),
        "canary/mean_logprob_difference": float(of_probe.mean()) if len(of_probe) else 0.0,
    } | found


def mean_limit(tolerance: float) -> float:
    """Most that all tokens but one may differ by on the mean, in nats: min(t, max(0.1, t/10)) for a tolerance t."""
    return min(tolerance, max(MEAN_APART, MEAN_SHARE * tolerance))


def _mean_of_others(difference: np.ndarray) -> float:
    """The mean of all but the largest, which alone would decide a probe of a dozen tokens; 0 for a single one."""
    if len(difference) < 2:
        return 0.0
    return float(np.delete(difference, difference.argmax()).mean(dtype=np.float64))


class UpdateKl:
    """KL divergence by which the updates of a step move the policy: create it before the first, ``check`` after the
    last."""

    def __init__(self, batch: Batch, learner: Learner) -> None:
        self._batch, self._learner = _spread(batch, KL_SEGMENTS), learner
        self._before = learner.logprobs(self._batch, whole=True)

    def check(self, updated: Metrics, *, limit: float) -> Metrics:
        """``learner/update_kl_nats``: mean over the policy tokens of some episodes of log p before − log p after, both
        at the sampler's temperature and over the whole vocabulary.

        ``updated`` holds the metrics of the updates, for the message. Raises RunError if the KL exceeds ``limit`` nats
        per token or is not a number.
        """
        spoken = _own(self._batch)
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
                "under another name"
            )
        return {"learner/update_kl_nats": kl}


def _own(batch: Batch) -> BoolArray:
    """Tokens that the policy, or an earlier one, sampled in the very context in which they are learned: bool[L]."""
    own_L: BoolArray = (batch.policy_weight_L != 0) & np.isin(batch.origin_L, (Origin.OWN, Origin.REPLAYED))
    return own_L


def _spread(batch: Batch, n: int) -> Batch:
    """``n`` of the segments in which the policy spoke, evenly spread; all of a batch that has no more than that."""
    if batch.n_segments <= n:
        return batch
    spoken = np.unique(batch.segment_L[_own(batch)])
    if not len(spoken):
        return batch
    chosen = np.isin(batch.segment_L, spoken[np.linspace(0, len(spoken) - 1, n).round().astype(int)])
    return only_segments(batch, chosen)


def _borderline(difference: np.ndarray, probe: np.ndarray, tolerance: float) -> np.ndarray:
    """Positions that differ because a token is at the border of top-p or top-k: bool[L].

    All positions that differ are taken for such, if they are few. A difference of NaN is never one.
    """
    parted = difference > tolerance
    allowed = 1 + min(BORDER_TOKENS * tolerance, BORDER_SHARE) * int(probe.sum())
    return parted if parted.sum() <= allowed else np.zeros_like(parted)


async def probe(player: Player, trajectories: Sequence[Trajectory], *, seed: int) -> Batch:
    """Let the sampler write a few tokens in each turn of recorded episodes, through its cache, as in a rollout.

    The observations are the recorded ones, the sampled tokens between them are new. Their log-probabilities are what
    matters; that the replies need not fit the observations does not.
    """
    spoken, policy = [], player.policy
    async with policy.slot():
        for number, trajectory in enumerate(trajectories):
            name = f"probe {number} of {trajectory.id}"
            seed_of = derive_seed(seed, number)
            episode = replace(trajectory, id=name, turns=(), guidance=None, replay=None, seed=seed_of)
            try:
                for turn in trajectory.turns:
                    if episode.turns and not _has_room(player, episode, turn):
                        break
                    said = await _speak(player, episode, turn)
                    episode = replace(episode, turns=(*episode.turns, said))
            finally:
                policy.release(episode.id)
            spoken.append(episode)
    return pack_demonstrations(spoken)


def _has_room(player: Player, so_far: Trajectory, recorded: Turn) -> bool:
    """Whether another turn fits into the context: the sampled turns may be longer than the recorded ones."""
    return len(so_far.ids()) + len(recorded.context_ids) + PROBE_TOKENS <= player.limits.context


async def _speak(player: Player, so_far: Trajectory, recorded: Turn) -> Turn:
    """The turn that the sampler makes now of the recorded observation, after the turns of ``so_far``."""
    text, number, chat = recorded.observation.text, len(so_far.turns), player.chat
    context = chat.follow_up(text, so_far.turns[-1].completion.ended_by) if number else chat.opening(text)
    completion = await complete(
        player.policy,
        Request(
            episode=so_far.id,
            task_id=so_far.task.id,
            ids=np.concatenate([so_far.ids(), context]),
            turn=number,
            seed=derive_seed(so_far.seed, number),
            max_tokens=PROBE_TOKENS,
            sampling=player.sampling,
        ),
        n_tokens=player.n_tokens,
    )
    source = np.repeat(np.array([Source.CONTEXT, Source.POLICY], np.uint8), [len(context), len(completion.ids_K)])
    return replace(recorded, context_ids=context, completion=completion, source=source)


def longest(trajectories: Sequence[Trajectory], n: int) -> list[Trajectory]:
    """The ``n`` trajectories with most turns, because errors of the cache show in long episodes first."""
    return sorted(trajectories, key=lambda trajectory: (-len(trajectory.turns), trajectory.id))[:n]


def _as_policy(batch: Batch, probe: np.ndarray) -> Batch:
    return replace(batch, policy_weight_L=probe.astype(np.float32), ce_weight_L=np.zeros(batch.n_tokens, np.float32))
