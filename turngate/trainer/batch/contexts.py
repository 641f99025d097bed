"""Learning without the hint: the context a token was sampled in, the one it is trained in, and who wrote it.

A rollout puts a hint into the context as tokens of its own, marked ``Source.GUIDE``. Where the guidance has
``strip_for_train``, learning sees the same episode without exactly these tokens; nothing is tokenised again. So the
policy learns to act without the hint as it did with it. Every turn from the hint on then has two contexts, because the
hint is in the history of all of them, and its importance ratio is

    ρ = π_θ(token | context without the hint) / μ(token | context as sampled)

whose denominator is the sampler's recorded log-probability. It is not 1 before the first update. Source: adaptive
guidance, https://arxiv.org/abs/2506.13923.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum

import numpy as np

from turngate.types import ByteArray, ScoredGroup, Source, Trajectory, Turn

EXPERT = "expert"
"""``Guidance.source`` of turns that an expert wrote, which ``loss.experts`` learns from."""


class Origin(IntEnum):
    """The context in which a token was sampled, compared with the one in which it is trained."""

    OWN = 0
    """The policy wrote it, in the context in which it is learned. All tokens of a context count as such, too."""
    HINTED = 1
    """The policy wrote it with a hint in its context, and it is learned without."""
    EXPERT = 2
    """An expert wrote it: no sampler gave it a probability."""
    REPLAYED = 3
    """The policy of an earlier step, or of another run, wrote it, in the context in which it is learned."""


def without_hints(groups: Sequence[ScoredGroup]) -> list[ScoredGroup]:
    """The groups as they are learned from: see ``without_hint``."""
    return [replace(group, trajectories=tuple(map(without_hint, group.trajectories))) for group in groups]


def without_hint(trajectory: Trajectory) -> Trajectory:
    """The episode without the tokens of its hint, if that is stripped for training; else the episode itself.

    Only tokens of contexts that are marked ``Source.GUIDE`` are deleted; the completions, also those of prefix turns,
    stay.
    """
    guidance = trajectory.guidance
    if guidance is None or not guidance.strip_for_train:
        return trajectory
    return replace(trajectory, turns=tuple(map(_without, trajectory.turns)))


def _without(turn: Turn) -> Turn:
    n_context = len(turn.context_ids)
    kept = turn.source != Source.GUIDE
    kept[n_context:] = True
    if kept.all():
        return turn
    return replace(turn, context_ids=turn.context_ids[kept[:n_context]], source=turn.source[kept])


def origins(trajectory: Trajectory) -> list[ByteArray]:
    """The ``Origin`` of each token, turn by turn: uint8 arrays, one entry per token of context and completion."""
    found = [np.full(len(turn.source), Origin.OWN, np.uint8) for turn in trajectory.turns]
    if trajectory.replay is not None:
        for turn, origin in zip(trajectory.turns, found, strict=True):
            origin[turn.source == Source.POLICY] = Origin.REPLAYED
    guidance = trajectory.guidance
    if guidance is None:
        return found
    for number, (turn, origin) in enumerate(zip(trajectory.turns, found, strict=True)):
        written = turn.source[len(turn.context_ids) :]
        said = origin[len(turn.context_ids) :]
        if guidance.strip_for_train and guidance.text and number >= guidance.insert_turn:
            said[written == Source.POLICY] = Origin.HINTED
        if guidance.source == EXPERT:
            said[written == Source.GUIDE] = Origin.EXPERT
    return found
