"""Log-ratios between two models, and how the implicit reward model among them is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.trainer.learner import Learner, Measuring
from turngate.trainer.loss import PolicyLoss, Reinforce
from turngate.trainer.signals.base import Columns, Found, Played, nothing
from turngate.types import Batch, FloatArray, Metrics, TurnTable

RewardLoss: TypeAlias = Callable[[TurnTable], tuple[float, npt.NDArray[np.float64]]]
ALONG = PolicyLoss(objective=Reinforce())  # Σ −advantage·log π: its gradient is any gradient with respect to log π


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatios:
    """``logratio_S``, ``log π_φ − log π_ref`` of each policy token, and ``logratio_N``, its sum over a turn.

    ``model`` is φ and ``base`` the reference; None stands for the sampler, with the log-probabilities that it recorded.
    ``loss`` trains φ (see ``credit.implicit``): from the table it computes a number, and its gradient with respect to
    each trajectory's summed log-ratio. φ takes one update per step, after it was measured, so the columns of a step
    come from a φ that has not seen that step's outcomes. Models are measured over the whole vocabulary; the recorded
    log-probabilities of a sampler with top-p or top-k are those of its truncated distribution.
    """

    model: Learner | None = None
    base: Measuring | None = None
    loss: RewardLoss | None = None

    def measure(self, played: Played) -> Found:
        """See ``base.Signal``."""
        ratio_L = self._logprobs(self.model, played.batch) - self._logprobs(self.base, played.batch)
        ratio_N = played.sums(ratio_L).astype(np.float32)
        columns: Columns = {"logratio_S": ratio_L[played.spoken_S], "logratio_N": ratio_N}

        def after_credit(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            return {}, self._learn(replace(table, measured={**table.measured, "logratio_N": ratio_N}), played)

        return Found(columns=columns, after_credit=nothing if self.loss is None else after_credit)

    @staticmethod
    def _logprobs(learner: Measuring | None, batch: Batch) -> FloatArray:
        return batch.logprob_L if learner is None else learner.logprobs(batch, whole=True)

    def _learn(self, table: TurnTable, played: Played) -> Metrics:
        assert self.model is not None
        assert self.loss is not None
        loss, gradient_B = self.loss(table)
        batch = played.batch
        advantage_L = np.zeros(batch.n_tokens, np.float32)
        advantage_L[played.spoken_S] = -gradient_B[table.traj_N[played.turn_S]]
        along = replace(
            batch,
            advantage_L=advantage_L,
            policy_weight_L=(batch.policy_weight_L > 0).astype(np.float32),
            logprob_L=np.zeros_like(batch.logprob_L),
        )
        self.model.forward_backward(along, ALONG)
        return {"reward_model/loss": loss, "reward_model/grad_norm": self.model.optim_step()["learner/grad_norm"]}
