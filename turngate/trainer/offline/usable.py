"""Which recorded episodes a policy can be evaluated on or can learn from."""

from __future__ import annotations

import numpy as np

from turngate.agents.chat import Chat
from turngate.trainer.batch.contexts import EXPERT, without_hint
from turngate.types import EndedBy, Source, Trajectory

GUIDED, BRANCHED = "guided", "branched"
LEAVABLE = (GUIDED, BRANCHED)
"""Kinds that may be left out on demand; the user decides whether that changes the result."""


def unsampled(trajectory: Trajectory) -> str:
    """Why the probabilities of an episode's turns under the policy that played it are unknown; "" where they are
    known."""
    for number, turn in enumerate(trajectory.turns):
        said, where = turn.completion, f"turn {number} of '{trajectory.id}'"
        if problem := _without_tokens(trajectory, number):
            return f"{where} has no log-probabilities: {problem}"
        if said.ended_by is EndedBy.SCRIPT:
            return f"{where} was given, not sampled, so how likely it was is not known"
        if len(said.ids_K) and np.isnan(said.logprobs_K).all():
            return f"{where} has the ids that were sampled and no log-probabilities"
        if not np.isfinite(said.logprobs_K).all():
            return f"{where} has a log-probability that is not finite"
    return ""


def without_tokens(trajectory: Trajectory) -> str:
    """Which turn of an episode has text and no tokens, so that nothing can be learned from it; "" for none."""
    for number in range(len(trajectory.turns)):
        if problem := _without_tokens(trajectory, number):
            return f"turn {number} of '{trajectory.id}' has no token ids: {problem}"
    return ""


def unlike(trajectory: Trajectory, chat: Chat, context: int | None) -> str:
    """Why a policy that is shown texts by ``chat``, with positions for ``context`` tokens (None = not known), would not
    have been shown this episode as it is recorded; "" if it would."""
    for number, turn in enumerate(trajectory.turns):
        said = turn.completion
        if said.text and chat.decode(said.ids_K) != said.text:
            return (
                f"turn {number} of '{trajectory.id}' reads otherwise with the policy's tokenizer: its tokens are not "
                "those of who played"
            )
    plain = without_hint(trajectory)
    if not plain.turns:
        return ""
    first = plain.turns[0]
    alone = trajectory.parent is None  # a further attempt is shown the earlier one before
    if alone and chat.is_plain and not np.array_equal(chat.opening(first.observation.text), first.context_ids):
        return (
            f"the policy would be shown another text than was shown in '{trajectory.id}': its chat template, system "
            "message or tokenizer differs from those of who played"
        )
    if context is not None and len(trajectory.ids()) > context:
        return f"'{trajectory.id}' has {len(trajectory.ids())} tokens, and the policy has positions for {context}"
    return ""


def kind_to_leave_out(trajectory: Trajectory) -> str:
    """``GUIDED`` for an episode whose help stays in the trained context or with turns that the policy did not take,
    ``BRANCHED`` for one that shares turns with another; "" for others, also for those whose hint is stripped for
    training."""
    guidance = trajectory.guidance
    lent = any((turn.source[len(turn.context_ids) :] == Source.GUIDE).any() for turn in trajectory.turns)
    if guidance is not None and (lent or not guidance.strip_for_train or guidance.source == EXPERT):
        return GUIDED
    return BRANCHED if trajectory.parent is not None else ""


def _without_tokens(trajectory: Trajectory, number: int) -> str:
    said = trajectory.turns[number].completion
    return "it is from a server or a log that gave text alone" if not len(said.ids_K) and said.text else ""
