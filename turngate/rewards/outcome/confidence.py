"""Rewards from the policy's own probabilities: no verifier, so each says how it can be fooled.

Log-probabilities come from whoever ran the model and are recorded as evidence. They are in nats.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from turngate.errors import ConfigError, ShapeError

Array = npt.NDArray[np.float64]


def mean_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``mean_k p_k`` of the tokens of an answer, in [0, 1]: CRew's confidence. None for no tokens.

    Pays for being sure, also of what is wrong; in agents use it on the arguments of an action.
    """
    logprob_K = _logprobs(logprob_K)
    return float(np.exp(logprob_K).mean()) if logprob_K.size else None


def product_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``Π_k p_k``, VeriFree's reward (https://arxiv.org/abs/2505.21493): falls with the length of the reference."""
    logprob_K = _logprobs(logprob_K)
    return float(np.exp(logprob_K.sum())) if logprob_K.size else None


def rlpr(
    reference_K: npt.ArrayLike,
    baseline_K: npt.ArrayLike,
    *,
    well_formed: bool = True,
    format_weight: float = 0.1,
) -> float | None:
    """RLPR: ``(1 − w)·max(P − P0, 0) + w·format`` in [0, 1], with ``P`` the mean probability of the reference answer.

    ``reference_K`` are its log-probabilities after the agent's whole trajectory (final answer turn only),
    ``baseline_K`` those without the agent's reasoning. w = 0.1 as published (https://arxiv.org/abs/2506.18254). It
    leaks where an observation contains the reference text. None if either side has no tokens.
    """
    if not 0 <= format_weight <= 1:
        raise ConfigError(f"format_weight={format_weight} must lie in [0, 1]")
    reference, baseline = mean_probability(reference_K), mean_probability(baseline_K)
    if reference is None or baseline is None:
        return None
    return (1 - format_weight) * max(reference - baseline, 0.0) + format_weight * well_formed


def last_token_score(logprob: float | None, *, beta: float = 0.1, reference: float = -23.0) -> float | None:
    """LaSeR's own verdict ``β·(log π(z | prompt, answer, end) − c_ref)`` for an unused special token z.

    Above 0.5 the policy predicts that it was right; the regression target is the outcome in {0, 1}. Defaults as
    published (https://arxiv.org/abs/2510.14943); ``reference`` is the token's log-probability before training, so
    measure it for another model. Not bounded. None stays None.
    """
    return None if logprob is None else beta * (logprob - reference)


def self_certainty(logprob_KV: npt.ArrayLike) -> float | None:
    """``mean_k [−(1/V)·Σ_v log p_kv − log V]``: KL from uniform to the policy, 0 for uniform, growing with certainty.

    ``logprob_KV`` holds the whole distribution at each token. For choosing among samples, not for training: rewarded,
    it collapses the policy. Source: https://arxiv.org/abs/2502.18581. None for no tokens.
    """
    logprob_KV = np.asarray(logprob_KV, np.float64)
    if logprob_KV.ndim != 2 or not np.isfinite(logprob_KV).all():
        raise ShapeError(f"logprob_KV of shape {logprob_KV.shape} must be a finite matrix, one row per token")
    if not len(logprob_KV):
        return None
    return float((-logprob_KV.mean(axis=1) - np.log(logprob_KV.shape[1])).mean())


def _logprobs(values: npt.ArrayLike) -> Array:
    logprob_K = np.asarray(values, np.float64)
    if logprob_K.ndim != 1 or not (logprob_K <= 0).all():
        raise ShapeError(f"log-probabilities of shape {logprob_K.shape} must be flat and at most 0")
    return logprob_K
