"""KL to a reference model as part of the reward, turn by turn: the policy gradient is then right by itself.

With k1 = log π − log π_ref in the reward, π the policy before the update, the policy gradient of the return is that of
``return − coef·KL(π ‖ π_ref)`` over the whole episode, also for what a turn does to the KL of later turns, which no
penalty on tokens sees.

Both are measured at the sampler's temperature, over the whole vocabulary and in the context that is learned. The
sampler's record is not used: it may be cut by top-p and top-k, of older weights, or of a context with a hint. So equal
models are charged nothing. With top-p or top-k only kept tokens are sampled, and the charge has the mean
``(1/S) Σ_K π·(log π − log π_ref)`` over the kept set K of mass S, which can be below 0 (see ``loss.kl``). Where a hint
was left out, tokens were sampled with it, and the charge is what they differ by without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from turngate.errors import ConfigError
from turngate.trainer.credit.cohorts import per_trajectory, validate
from turngate.trainer.credit.pay_sources import column
from turngate.trainer.learner import Measuring
from turngate.trainer.signals.base import Found, Played
from turngate.types import TurnTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A signal: ``kl_N``, ``Σ (log π − log π_ref)`` over the policy tokens of each turn, 0 for a turn without any.

    ``policy`` is π, with the weights before the update, and ``base`` the frozen reference. The column is not named
    ``logratio_N``, because that one (``LogRatios``) may hold the log-ratios of a reward model.
    """

    policy: Measuring
    base: Measuring

    def measure(self, played: Played) -> Found:
        ratio_L = self.policy.logprobs(played.batch, whole=True) - self.base.logprobs(played.batch, whole=True)
        return Found(columns={"kl_N": played.sums(ratio_L).astype(np.float32)})


def with_kl_in_reward(table: TurnTable, *, coef: float) -> TurnTable:
    """The table with ``coef · kl_N`` subtracted from what each turn was paid: a ``view`` of ``base.Signals``.

    Each turn is charged for its own tokens, so credit that sums returns also charges a turn for the KL of later ones.
    ``settled_B`` is charged the sum over the episode, for rules that read the outcome apart from the process.
    ``outcome_B`` and what single components were paid stay as they are, so ``outcome="earned"``, ``gdpo`` and ``hero``
    do not see the KL.

    Values in use elsewhere: coef 1e-3 to 1e-2. Raises ConfigError for coef ≤ 0, ShapeError without the column or for
    an entry that is not finite.
    """
    if not coef > 0:
        raise ConfigError(f"KL in the reward needs coef > 0, found {coef}; leave it out instead of setting it to 0")
    validate(table)
    penalty_N = coef * column(table, "kl_N", "KL in the reward")
    measured = dict(table.measured)
    if "settled_B" in measured:
        measured["settled_B"] = (measured["settled_B"] - per_trajectory(penalty_N, table)).astype(np.float32)
    return replace(table, reward_N=(table.reward_N - penalty_N).astype(np.float32), measured=measured)
