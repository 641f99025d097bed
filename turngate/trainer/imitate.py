"""Warm start: supervised fine-tuning on trajectories, from an oracle or from people."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from turngate.trainer.learner import Learner
from turngate.trainer.loss import Loss
from turngate.trainer.pack import pack_demonstrations
from turngate.types import Metrics, Trajectory

AfterPass = Callable[[int, float], Awaitable[None]]
"""Called with the number of a finished pass, from 1, and the mean cross-entropy of its updates in nats per token."""


async def nothing(number: int, cross_entropy: float) -> None:
    """An ``AfterPass`` that does nothing."""


async def imitate(
    learner: Learner,
    loss: Loss,
    demonstrations: Sequence[Trajectory],
    *,
    epochs: int,
    episodes_per_batch: int,
    seed: int,
    report: Callable[[int, int, Metrics], None] = lambda step, total, metrics: None,
    after_pass: AfterPass = nothing,
) -> None:
    """Train on ``demonstrations`` in ``epochs`` shuffled passes, ``episodes_per_batch`` episodes per update.

    The learning rate rises over the first 5 % of the updates and then falls along a cosine to 5 % of its value.
    ``report`` is called after each update with its number, the number of all updates, and its metrics. ``after_pass``
    is awaited after each pass, with the weights as they are then.
    """
    per_epoch = math.ceil(len(demonstrations) / episodes_per_batch)
    total = epochs * per_epoch
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(len(demonstrations))
        losses = []
        for number in range(per_epoch):
            chosen = order[number * episodes_per_batch : (number + 1) * episodes_per_batch]
            step = epoch * per_epoch + number
            metrics = learner.forward_backward(pack_demonstrations([demonstrations[i] for i in chosen]), loss)
            metrics |= learner.optim_step(lr_scale=_cosine(step, total))
            losses.append(metrics["loss/imitation"])
            report(step + 1, total, metrics)
        await after_pass(epoch + 1, float(np.mean(losses)))


def _cosine(step: int, total: int) -> float:
    rise = max(1, total // 20)
    if step < rise:
        return (step + 1) / rise
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))
