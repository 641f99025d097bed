"""KL to a reference model inside the reward, turn by turn, in numpy: the form whose gradient is right for free.

With k1 = log π_old − log π_ref in the reward, the policy gradient of the return is that of
``return − coef·KL(π ‖ π_ref)`` over the whole episode, also for what a turn does to the KL of later turns, which no
penalty on tokens sees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from turngate.errors import ConfigError, ShapeError
from turngate.types import Batch, FloatArray, TurnTable


def turn_log_ratio(batch: Batch, reference_L: FloatArray) -> FloatArray:
    """``Σ (log μ − log π_ref)`` over the policy tokens of each turn, in the order of the batch's turns: float32[N].

    ``reference_L`` are the reference model's log-probabilities (``Learner.logprobs`` of a frozen copy). A turn without
    policy tokens has 0. Raises ShapeError when the columns do not fit or one is not finite on a policy token.
    """
    if reference_L.shape != batch.logprob_L.shape:
        raise ShapeError(f"reference_L has shape {reference_L.shape}, expected {batch.logprob_L.shape}: one per token")
    spoken_L = batch.policy_weight_L != 0
    x_L = np.where(spoken_L, batch.logprob_L.astype(np.float64) - reference_L, 0.0)
    if not np.isfinite(x_L).all():
        bad = int(np.flatnonzero(~np.isfinite(x_L))[0])
        raise ShapeError(f"log μ − log π_ref is {x_L[bad]} at token {bad}; both must be finite on policy tokens")
    begins_L = (np.diff(batch.segment_L, prepend=-1) != 0) | (np.diff(batch.turn_L, prepend=-1) != 0)
    turn_L = np.cumsum(begins_L) - 1
    n_turns = int(turn_L[-1]) + 1 if batch.n_tokens else 0
    return np.bincount(turn_L, weights=x_L, minlength=n_turns).astype(np.float32)


def with_kl_in_reward(table: TurnTable, *, coef: float) -> TurnTable:
    """``reward_N − coef·logratio_N``, with ``table.measured["logratio_N"]`` from ``turn_log_ratio``.

    Each turn pays for its own tokens, so credit with returns sees the KL that a turn leads to. ``outcome_B`` is left
    alone. Default in use elsewhere: coef 1e-3 to 1e-2. Raises ConfigError for coef ≤ 0, ShapeError without the column.
    """
    if coef <= 0:
        raise ConfigError(f"KL in the reward needs coef > 0, found {coef}; leave it out instead of setting it to 0")
    logratio_N = table.measured.get("logratio_N")
    if logratio_N is None or logratio_N.shape != table.reward_N.shape:
        found = "nothing" if logratio_N is None else f"shape {logratio_N.shape}"
        raise ShapeError(f"KL in the reward needs measured 'logratio_N' of shape {table.reward_N.shape}, found {found}")
    return replace(table, reward_N=(table.reward_N - coef * logratio_N).astype(np.float32))
