"""Which of the tokens that a model wrote are the thought before its action, for losses that tell them apart."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from turngate.agents.chat import Chat
from turngate.trainer.signals.base import Found, Played
from turngate.types import BoolArray, FloatArray, Metrics, Trajectory, Turn, TurnTable


@dataclass(frozen=True, slots=True)
class SaidThoughts:
    """Gives the learner ``thought_L``, 1 for tokens of thoughts; metric ``policy/thought_share``, of what was said."""

    chat: Chat

    def measure(self, played: Played) -> Found:
        """See ``base.Signal``; the table gets no column."""
        thought_L = thought_marks(played.trajectories, self.chat)
        share = float(thought_L[played.spoken_S].mean()) if len(played.spoken_S) else 0.0

        def after_credit(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            return {"thought_L": thought_L}, {"policy/thought_share": share}

        return Found(columns={}, after_credit=after_credit)


def thought_marks(trajectories: Sequence[Trajectory], chat: Chat) -> FloatArray:
    """1 for each token of the packed batch that belongs to a thought, else 0: float32[L]."""
    marks = [np.zeros(0, np.bool_)]
    for trajectory in trajectories:
        for turn in trajectory.turns:
            marks += [np.zeros(len(turn.context_ids), np.bool_), _thought(turn, chat)]
    return np.concatenate(marks).astype(np.float32)


def _thought(turn: Turn, chat: Chat) -> BoolArray:
    """Which tokens of the completion are the thought, bool[K]; one that holds more than a part of it is not.

    The sampled tokens are decoded, never the text encoded again, because a model may write a text in other tokens.
    """
    ids, thought = turn.completion.ids_K, turn.action.thought
    marks = np.zeros(len(ids), np.bool_)
    begin = chat.decode(ids).find(thought) if thought else -1
    if begin < 0:
        return marks

    def n_letters(n_tokens: int) -> int:
        return len(chat.decode(ids[:n_tokens]))

    places = range(len(chat.open(ids)) + 1)
    first = bisect_left(places, begin, key=n_letters)
    last = bisect_right(places, begin + len(thought), key=n_letters) - 1
    marks[first:last] = True
    return marks
