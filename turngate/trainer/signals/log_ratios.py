"""Log-ratios between two models, and how the implicit reward model among them is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.trainer.learner import Learner, Measuring
from turngate.trainer.loss.objectives import Reinforce
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.signals.base import Columns, Found, Played
from turngate.types import FloatArray, Metrics, TurnTable

RewardLoss: TypeAlias = Callable[[TurnTable], tuple[float, npt.NDArray[np.float64]]]
ALONG = PolicyLoss(objective=Reinforce())  # Σ −advantage·log π: its gradient is any gradient with respect to log π


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatios:
    """``logratio_S``, ``log π_φ − log π_ref`` of each policy token, and ``logratio_N``, its sum over a turn.

    ``model`` is φ, a reward model or the policy itself, and ``base`` the reference, or the policy. Both are measured
    before the update, at the sampler's temperature, over the whole vocabulary and in the context that is learned: equal
    models have log-ratios of 0 however their tokens were sampled.
    """

    model: Measuring
    base: Measuring

    def measure(self, played: Played) -> Found:
        return Found(columns=self._columns(played))

    def _columns(self, played: Played) -> Columns:
        ratio_L = self.model.logprobs(played.batch, whole=True) - self.base.logprobs(played.batch, whole=True)
        return {"logratio_S": ratio_L[played.spoken_S], "logratio_N": played.sums(ratio_L).astype(np.float32)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLogRatios(LogRatios):
    """Log-ratios of a φ that learns beside the policy.

    ``loss`` trains φ (see ``credit.implicit``): from the table it computes a number, and its gradient with respect to
    each trajectory's summed log-ratio. φ takes one update per step, after it was measured, so the columns of a step
    come from a φ that has not seen that step's outcomes.
    """

    model: Learner
    loss: RewardLoss

    def measure(self, played: Played) -> Found:
        columns = self._columns(played)
        ratio_N = columns["logratio_N"]

        def after_credit(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            return {}, self._learn(replace(table, measured={**table.measured, "logratio_N": ratio_N}), played)

        return Found(columns=columns, after_credit=after_credit)

    def _learn(self, table: TurnTable, played: Played) -> Metrics:
        loss, gradient_B = self.loss(table)
        batch = played.batch
        advantage_L = np.zeros(batch.n_tokens, np.float32)
        advantage_L[played.spoken_S] = -gradient_B[table.traj_N[played.turn_S]]
        along = replace(
            batch,
            advantage_L=advantage_L,
            policy_weight_L=(batch.policy_weight_L > 0).astype(np.float32),
            logprob_L=np.zeros_like(batch.logprob_L),
            origin_L=np.zeros_like(batch.origin_L),  # φ is no policy: whose tokens they are shapes nothing
        )
        self.model.forward_backward(along, ALONG)
        return {"reward_model/loss": loss, "reward_model/grad_norm": self.model.optim_step()["learner/grad_norm"]}
