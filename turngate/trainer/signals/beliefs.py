"""The policy's own uncertainty, and its belief in the right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turngate.agents.chat import Chat
from turngate.trainer.credit.igpo import information_gain
from turngate.trainer.learner import Learner
from turngate.trainer.signals.base import Found, Played
from turngate.trainer.signals.likelihoods import likelihoods_of
from turngate.types import BoolArray, IntArray, Task


@dataclass(frozen=True, slots=True)
class Entropies:
    """``entropy_S`` of each policy token and ``entropy_N``, its mean over a turn (NaN without tokens), in nats.

    It is that of the sampler's distribution, with its temperature, top-p and top-k, in the context that is learned.
    """

    learner: Learner

    def measure(self, played: Played) -> Found:
        entropy_L = self.learner.entropies(played.batch)
        count_N = np.bincount(played.turn_S, minlength=played.table.n_turns)
        mean_N = np.where(count_N > 0, played.sums(entropy_L) / np.maximum(count_N, 1), np.nan)
        return Found(columns={"entropy_N": mean_N.astype(np.float32), "entropy_S": entropy_L[played.spoken_S]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """``gain_N``: what each turn adds to the policy's belief in the right answer (see ``credit.igpo``).

    The belief before a turn is ``exp(mean log π)`` over the tokens of the right answer, as if the assistant gave it at
    that point, at the sampler's temperature and over the whole vocabulary. ``answer`` returns two texts for a task: an
    introduction, which is not measured, and the answer. With ``log``, gains are differences of log-probabilities. Costs
    one more forward pass over the context of each turn.
    """

    learner: Learner
    chat: Chat
    answer: Callable[[Task], tuple[str, str]]
    log: bool = False

    def measure(self, played: Played) -> Found:
        logprobs = likelihoods_of(self.learner)(*self._asked(played))
        belief_N = np.array([np.exp(one.mean(dtype=np.float64)) if len(one) else np.nan for one in logprobs])
        gain_N = information_gain(played.table, belief_N, log=self.log)
        return Found(columns={"gain_N": gain_N.astype(np.float32)})

    def _asked(self, played: Played) -> tuple[list[IntArray], list[BoolArray]]:
        """For each turn: the ids of everything before it followed by the right answer, and marks on the answer's
        tokens."""
        ids, asked = [], []
        for trajectory in played.trajectories:
            first, answer = (self.chat.encode_turn(text)[:-1] for text in self.answer(trajectory.task))
            so_far: list[IntArray] = []
            for turn in trajectory.turns:
                so_far.append(turn.context_ids)
                ids.append(np.concatenate([*so_far, first, answer]))
                asked.append(np.arange(len(ids[-1])) >= len(ids[-1]) - len(answer))
                so_far.append(turn.completion.ids_K)
        return ids, asked
