"""Packs trajectories and credit into flat token arrays; the learner, which gets these, knows nothing about episodes.

The weights carry the whole normalisation of the loss, so how tokens are grouped into micro-batches cannot change the
gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from turngate.errors import ConfigError, ShapeError, UnknownName
from turngate.trainer.batch.contexts import Origin, origins
from turngate.types import Batch, BoolArray, FloatArray, IntArray, ScoredGroup, Source, TokenCredit, Trajectory

Aggregate: TypeAlias = Literal["token", "sequence", "turn", "sum"] | int
AGGREGATES = ("token", "sequence", "turn", "sum")


def pack(
    groups: Sequence[ScoredGroup],
    credit: FloatArray | TokenCredit,
    *,
    aggregate: Aggregate = "token",
    experts: bool = False,
) -> Batch:
    """A batch in which every policy token has the advantage of its turn, and a weight that normalises the loss.

    ``credit`` is float32[N], one number per turn, or a ``TokenCredit``, one per policy token. With ``experts``, what an
    expert wrote in its turns is trained like the policy's tokens (``contexts.Origin.EXPERT``); credit per token has no
    number for it.

    ``aggregate`` says what the loss ℓ of tokens j of turns t of sequences i is averaged over; sequences and turns
    without policy tokens do not count:

    ============== ====================== ============================================================================
    ``"token"``    Σ ℓ / number of tokens DAPO (https://arxiv.org/abs/2503.14476): long answers weigh more
    ``"sequence"`` mean_i mean_j ℓ        GRPO (https://arxiv.org/abs/2402.03300): a token of a long answer weighs less
    ``"turn"``     mean_i mean_t mean_j ℓ every decision of an agent alike, however long it is written
    ``"sum"``      mean_i Σ_j ℓ           the policy gradient itself
    an integer L   mean_i Σ_j ℓ / L       Dr.GRPO (https://arxiv.org/abs/2503.20783); L is a constant, for instance the
                                          token budget of an episode, never a measured length
    ============== ====================== ============================================================================

    The first three sum to 1 over the batch. A turn that k trajectories share, because they branched off after it,
    counts in each of them, with the credit that it has there: each leaf of a tree stands for an episode, and the
    gradient of its payment has a term for every turn on its way. Raises ShapeError when ``credit`` does not have one
    finite entry per turn, or per policy token in the order of the batch, UnknownName or ConfigError for another
    ``aggregate``.
    """
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise UnknownName("aggregate", aggregate, AGGREGATES)
    if not isinstance(aggregate, str) and aggregate < 1:
        raise ConfigError(f"an aggregate that is a number is a token budget of at least 1, found {aggregate}")
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    n_turns = sum(len(trajectory.turns) for trajectory in trajectories)
    flat = _flatten(trajectories)
    if experts:
        flat = replace(flat, policy_weight_L=np.maximum(flat.policy_weight_L, flat.origin_L == Origin.EXPERT))
    trained = flat.policy_weight_L > 0
    turn_L = rows(trajectories)
    advantage_L = np.zeros(flat.n_tokens, np.float32)
    if isinstance(credit, TokenCredit):
        if not np.array_equal(credit.turn_S, turn_L[trained]):
            raise ShapeError(
                f"turn_S has {len(credit.turn_S)} entries that are not the turns of the {trained.sum()} policy tokens"
            )
        advantage_L[trained] = _finite("advantage_S", credit.advantage_S, "policy token")
    else:
        if credit.shape != (n_turns,):
            raise ShapeError(f"advantage_N has shape {credit.shape}, expected ({n_turns},): one entry per turn")
        advantage_L[trained] = _finite("advantage_N", credit, "turn")[turn_L[trained]]
    weight_L = _weights(trained, flat.segment_L, turn_L, aggregate)
    return replace(flat, advantage_L=advantage_L, policy_weight_L=weight_L)


def _finite(name: str, values: FloatArray, unit: str) -> FloatArray:
    if not np.isfinite(values).all():
        raise ShapeError(f"{name} is not finite at {unit} {int(np.flatnonzero(~np.isfinite(values))[0])}")
    return values


def by_turn(credit: FloatArray | TokenCredit, n_turns: int) -> FloatArray:
    """Credit per turn: that of turns unchanged, that of tokens as the mean over each turn: float32[N]."""
    return credit.per_turn(n_turns) if isinstance(credit, TokenCredit) else credit


def pack_demonstrations(trajectories: Sequence[Trajectory]) -> Batch:
    """Cross-entropy on every policy token; ``ce_weight_L`` sums to 1."""
    flat = _flatten(trajectories)
    trained = flat.policy_weight_L > 0
    ce_weight = (trained / max(1, trained.sum())).astype(np.float32)
    return replace(flat, policy_weight_L=np.zeros_like(ce_weight), ce_weight_L=ce_weight)


def split(
    batch: Batch, columns: Mapping[str, FloatArray], parts: int, *, together: int = 1
) -> Iterator[tuple[Batch, dict[str, FloatArray]]]:
    """Cut a batch, and further ``columns`` of shape [L], into ``parts`` of whole segments, one per optimizer step.

    Segments are dealt out in turn, ``together`` at once, so that siblings spread over the parts. Weights (columns
    called ``…weight_L``) are scaled by the batch's segments over the part's, so under every aggregate each part is an
    unbiased estimate of the whole batch's loss, and parts of equal size average to it exactly. One part is the batch
    itself.
    """
    if parts == 1:
        yield batch, dict(columns)
        return
    for part in range(parts):
        chosen = batch.segment_L // together % parts == part
        if not chosen.any():
            continue
        own = only_segments(batch, chosen)
        scale = np.float32(batch.n_segments / own.n_segments)
        own = replace(own, policy_weight_L=own.policy_weight_L * scale, ce_weight_L=own.ce_weight_L * scale)
        more = {name: column[chosen] * (scale if name.endswith("weight_L") else 1) for name, column in columns.items()}
        yield own, more


def only_segments(batch: Batch, chosen_L: BoolArray) -> Batch:
    """The tokens of some whole segments, which are renumbered; weights stay as they are."""
    own = {name: getattr(batch, name)[chosen_L] for name in batch.__dataclass_fields__}
    own["segment_L"] = np.unique(own["segment_L"], return_inverse=True)[1].astype(np.int32)
    return Batch(**own)


def rows(trajectories: Sequence[Trajectory]) -> IntArray:
    """For each token of the packed batch, the row of its turn in the table of these trajectories: int32[L]."""
    lengths = [len(turn.source) for trajectory in trajectories for turn in trajectory.turns]
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def boundaries(trajectories: Sequence[Trajectory]) -> tuple[IntArray, IntArray]:
    """For each turn, the index in the packed batch of the last token before the agent writes, and of its last token.

    Two int32[N]. The state after the first index is the one in which the agent decides; the state after the second is
    the one that its turn led to, before the environment's reply.
    """
    before, after, place = [], [], 0
    for trajectory in trajectories:
        for turn in trajectory.turns:
            before.append(place + len(turn.context_ids) - 1)
            place += len(turn.source)
            after.append(place - 1)
    return np.array(before, np.int32), np.array(after, np.int32)


def _flatten(trajectories: Sequence[Trajectory]) -> Batch:
    """The batch without credit: ids, sampler logprobs and positions, and ``policy_weight_L`` of 1 on policy tokens.

    A trajectory without turns has no tokens, so it is not a segment.
    """
    ids, logprobs, source, position, segment, turn, origin = [], [], [], [], [], [], []
    for index, trajectory in enumerate([one for one in trajectories if one.turns]):
        if not len(trajectory.turns[0].context_ids):
            raise ShapeError(
                f"trajectory '{trajectory.id}' has no context before its first turn; nothing predicts its first token"
            )
        length = 0
        for number, step in enumerate(trajectory.turns):
            ids += [step.context_ids, step.completion.ids_K]
            logprobs += [np.zeros(len(step.context_ids), np.float32), step.completion.logprobs_K]
            source.append(step.source)
            turn.append(np.full(len(step.source), number, np.int32))
            length += len(step.source)
        origin += origins(trajectory)
        position.append(np.arange(length, dtype=np.int32))
        segment.append(np.full(length, index, np.int32))
    n_tokens = sum(len(part) for part in source)
    zeros = np.zeros(n_tokens, np.float32)
    return Batch(
        ids_L=_join(ids, np.int32),
        logprob_L=_join(logprobs, np.float32),
        advantage_L=zeros,
        policy_weight_L=(_join(source, np.uint8) == Source.POLICY).astype(np.float32),
        ce_weight_L=zeros,
        position_L=_join(position, np.int32),
        segment_L=_join(segment, np.int32),
        turn_L=_join(turn, np.int32),
        origin_L=_join(origin, np.uint8),
    )


def _weights(trained: np.ndarray, segment_L: np.ndarray, turn_L: np.ndarray, aggregate: Aggregate) -> FloatArray:
    weight = trained.astype(np.float64)
    if aggregate == "turn":
        weight = _share(weight, turn_L)
    if aggregate in ("turn", "sequence"):
        weight = _share(weight, segment_L)
    total = weight.sum()
    if aggregate not in ("token", "sequence", "turn"):
        budget = 1 if aggregate == "sum" else int(aggregate)
        total = len(np.unique(segment_L[trained])) * budget
    return (weight / total if total else weight).astype(np.float32)


def _share(weight: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Scale the weights so that they sum to 1 over each owner that has any."""
    total = np.bincount(owner, weights=weight)
    shared: np.ndarray = weight / np.where(total > 0, total, 1)[owner]
    return shared


def _join(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)
