"""Training with each estimator; how well the policy does is computed exactly after every update, never sampled.

All seeds of an estimator train together. Steps have the estimator's direction and a length that does not depend on its
scale: the gradient is divided by the root of the running mean of its squared length. So estimators that differ by a
constant factor learn alike, and what is left is direction and noise.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.credit_lab.draw import draw, gradients, table
from benchmarks.credit_lab.estimators import BATCH, Estimator
from benchmarks.credit_lab.measure import credit
from benchmarks.credit_lab.paths import Floats, Paths, expectation
from turngate.types import derive_seed

STEP, MEMORY, RESAMPLES = 0.15, 0.9, 2000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """``success_SU``: expected true worth of an episode for each seed, before the first and after each update."""

    process: str
    estimator: str
    success_SU: Floats

    def interval(self) -> tuple[Floats, Floats, Floats]:
        """Mean over seeds, and a 95 % bootstrap interval of that mean: three float64[updates + 1]."""
        n_seeds = len(self.success_SU)
        rng = np.random.default_rng(derive_seed("bootstrap", self.process, self.estimator))
        picks_RS = rng.integers(n_seeds, size=(RESAMPLES, n_seeds))
        share_RS = np.stack([np.bincount(pick, minlength=n_seeds) for pick in picks_RS]) / n_seeds
        low_U, high_U = np.quantile(share_RS @ self.success_SU, [0.025, 0.975], axis=0)
        return self.success_SU.mean(0), low_U, high_U


def learn(estimator: Estimator, paths: Paths, *, updates: int, seeds: int, siblings: int, step: float = STEP) -> Curve:
    """Train from the uniform policy, ``BATCH`` cohorts of ``siblings`` per update. Seeds are the same for all."""
    logits_SOA = np.zeros((seeds, *paths.shape))
    rngs = [np.random.default_rng(derive_seed("learn", paths.process.name, seed)) for seed in range(seeds)]
    worth = [[expectation(paths, one, paths.truth_P) for one in logits_SOA]]
    square_S = np.zeros(seeds)
    for number in range(1, updates + 1):
        drawn = draw(paths, logits_SOA, cohorts=BATCH, siblings=siblings, rngs=rngs, forked=estimator.forked)
        advantage_N = credit(estimator, table(drawn, estimator.columns), BATCH * siblings)
        gradient_SX = gradients(drawn, advantage_N, drawn.owner_B)
        square_S = MEMORY * square_S + (1 - MEMORY) * (gradient_SX**2).sum(1)
        length_S = np.sqrt(square_S / (1 - MEMORY**number))
        move_SX = step * gradient_SX / np.where(length_S > 0, length_S, 1.0)[:, None]
        logits_SOA = logits_SOA + move_SX.reshape(logits_SOA.shape)
        worth.append([expectation(paths, one, paths.truth_P) for one in logits_SOA])
    return Curve(process=paths.process.name, estimator=estimator.label, success_SU=np.array(worth).T)
