"""``FrozenLearner``: a learner that measures and learns nothing."""

from __future__ import annotations

from turngate.trainer.learner import NOTHING, Measured
from turngate.trainer.loss.tokens import Loss
from turngate.trainer.torch.learner import TorchLearner
from turngate.types import Batch, Metrics


class FrozenLearner(TorchLearner):
    """A ``TorchLearner`` whose weights stay as they are: it measures log-probabilities, and makes no update."""

    def forward_backward(self, batch: Batch, loss: Loss, *, measured: Measured = NOTHING) -> Metrics:
        """Nothing: no gradient is computed, and there are no metrics of a loss."""
        return {}

    def optim_step(self, *, lr_scale: float = 1.0) -> Metrics:
        """Nothing; the metrics say so."""
        return {"learner/grad_norm": 0.0, "learner/lr": 0.0}
