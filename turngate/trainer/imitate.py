"""Warm start: supervised fine-tuning on trajectories, from an oracle or from people.

``imitate`` makes a given number of passes. ``converge`` goes on until validation stops improving, so its result does
not depend on how many passes were allowed.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from turngate.trainer.batch.pack import pack_demonstrations
from turngate.trainer.learner import Learner
from turngate.trainer.loss.tokens import Loss
from turngate.types import Metrics, Trajectory

Phase = Literal["constant", "decay"]
"""What the learning rate does in a pass of ``converge``: it stays as it is (after its rise), or falls to 0."""

Validate = Callable[[int, float, Phase], Awaitable[float]]
"""Called with the number of a finished pass, from 1, the mean cross-entropy of its updates in nats per token, and the
phase; returns the success rate by which passes are compared."""

DECAY_SHARE = 0.2
"""Passes in which the learning rate falls, per pass before them. 10 to 20 % are usual (MiniCPM,
https://arxiv.org/abs/2404.06395; https://arxiv.org/abs/2405.18392)."""


class Imitation:
    """Shuffled passes over ``demonstrations``, ``episodes_per_batch`` of them in an update of ``learner``.

    ``report`` is called after each update with the number of all updates so far and its metrics. ``start`` is the
    cross-entropy of the first batch, before any update; ``passes`` has the mean of each pass, in nats per token.
    """

    def __init__(
        self,
        learner: Learner,
        loss: Loss,
        demonstrations: Sequence[Trajectory],
        *,
        episodes_per_batch: int,
        seed: int,
        report: Callable[[int, Metrics], None] = lambda step, metrics: None,
    ) -> None:
        self.learner = learner
        self.updates_per_pass = math.ceil(len(demonstrations) / episodes_per_batch)
        self._loss, self.demonstrations, self._batch = loss, demonstrations, episodes_per_batch
        self._rng, self._report, self._updates = np.random.default_rng(seed), report, 0
        self.start, self.passes = math.nan, list[float]()

    def run(self, lr_scale: Callable[[int], float]) -> float:
        """One pass; ``lr_scale`` gives the factor on the learning rate for each of its updates, from 0.

        Returns the mean cross-entropy of the updates, in nats per token.
        """
        order = self._rng.permutation(len(self.demonstrations))
        losses = []
        for number in range(self.updates_per_pass):
            chosen = order[number * self._batch : (number + 1) * self._batch]
            batch = pack_demonstrations([self.demonstrations[i] for i in chosen])
            metrics = self.learner.forward_backward(batch, self._loss)
            metrics |= self.learner.optim_step(lr_scale=lr_scale(number))
            losses.append(metrics["loss/imitation"])
            if not self._updates:
                self.start = losses[0]
            self._updates += 1
            self._report(self._updates, metrics)
        self.passes.append(float(np.mean(losses)))
        return self.passes[-1]


def imitate(passes: Imitation, *, epochs: int) -> None:
    """Make ``epochs`` passes. The learning rate rises over the first 5 % of all updates and then falls along a cosine
    to 5 % of its value."""
    for epoch in range(epochs):
        passes.run(_cosine(epoch * passes.updates_per_pass, epochs * passes.updates_per_pass))


async def converge(
    passes: Imitation, *, most: int, patience: int, every: int, validate: Validate, checkpoint: Path
) -> bool:
    """Make passes until validation has stopped improving, then lower the learning rate from the best of them.

    The learning rate rises over the first pass and then stays as it is. ``validate`` is awaited after every ``every``
    passes and after the last one of each phase. When ``patience`` passes in a row were no better than the best one
    before them, or after ``most`` passes, weights and optimizer go back to that one (``checkpoint`` is the file that
    keeps them), and the learning rate falls linearly to 0 over further ``DECAY_SHARE`` times as many passes as it had.

    Returns whether validation stopped improving; False means that ``most`` passes were too few to tell. The learner has
    the weights of the last pass then; which ones to keep is for ``validate`` to say.
    """
    best, best_pass, number = -math.inf, 0, 0
    while number < most and number - best_pass < patience:
        number += 1
        cross_entropy = passes.run(_rise(passes.updates_per_pass) if number == 1 else _level)
        if number % every == 0 or number == most:
            rate = await validate(number, cross_entropy, "constant")
            if rate > best:
                best, best_pass = rate, number
                passes.learner.save(checkpoint)
    converged = number - best_pass >= patience
    passes.learner.load(checkpoint)
    total = decay_passes(best_pass)
    for done in range(total):
        cross_entropy = passes.run(_fall(done * passes.updates_per_pass, total * passes.updates_per_pass))
        if (done + 1) % every == 0 or done + 1 == total:
            await validate(best_pass + done + 1, cross_entropy, "decay")
    return converged


def decay_passes(best_pass: int) -> int:
    """In how many passes the learning rate falls after ``best_pass`` passes; at least one."""
    return max(1, round(DECAY_SHARE * best_pass))


def _level(update: int) -> float:
    return 1.0


def _rise(updates: int) -> Callable[[int], float]:
    return lambda update: (update + 1) / updates


def _fall(first: int, total: int) -> Callable[[int], float]:
    return lambda update: 1 - (first + update) / total


def _cosine(first: int, total: int) -> Callable[[int], float]:
    rise = max(1, total // 20)

    def scale(update: int) -> float:
        step = first + update
        if step < rise:
            return (step + 1) / rise
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))

    return scale
