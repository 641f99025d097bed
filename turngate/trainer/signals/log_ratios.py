"""Log-ratios of another model beside the policy, and how that model learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from turngate.trainer.learner import Learner
from turngate.trainer.loss import PolicyLoss, Reinforce
from turngate.trainer.signals.base import Columns, Found, Played, nothing
from turngate.types import Batch, FloatArray, Metrics, TurnTable

RewardLoss: TypeAlias = Callable[[TurnTable], tuple[float, npt.NDArray[np.float64]]]
ALONG = PolicyLoss(objective=Reinforce())  # Σ −advantage·log π: descends along any gradient with respect to log π


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRatios:
    """``logratio_S``, ``log π_φ − log π_ref`` of each policy token, and ``logratio_N``, its sum over a turn.

    ``model`` is φ and ``base`` the reference; None is the sampler, as it was when it spoke. With ``loss`` (from the
    table to a number and its gradient with respect to each trajectory's Σ log-ratio: ``credit.implicit``), φ takes one
    step after each measurement, so the numbers of a step are those of φ before it has seen the outcomes. Models are
    measured over the whole vocabulary; a sampler that cuts its own is what it was.
    """

    model: Learner | None = None
    base: Learner | None = None
    loss: RewardLoss | None = None

    def measure(self, played: Played) -> Found:
        """See ``base.Signal``."""
        ratio_L = self._logprobs(self.model, played.batch) - self._logprobs(self.base, played.batch)
        ratio_N = played.sums(ratio_L).astype(np.float32)
        columns: Columns = {"logratio_S": ratio_L[played.spoken_S], "logratio_N": ratio_N}

        def lesson(table: TurnTable) -> tuple[Mapping[str, FloatArray], Metrics]:
            return {}, self._learn(replace(table, measured={**table.measured, "logratio_N": ratio_N}), played)

        return Found(columns=columns, lesson=nothing if self.loss is None else lesson)

    @staticmethod
    def _logprobs(learner: Learner | None, batch: Batch) -> FloatArray:
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
