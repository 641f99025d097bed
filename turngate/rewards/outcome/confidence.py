"""Rewards from the policy's own probabilities: no verifier, so each says how it can be fooled.

Log-probabilities, in nats, come from the engine that ran the model; values computed from them are recorded as evidence.
All take the tokens of one text, and give None for a text without tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from turngate.errors import ShapeError

Array = npt.NDArray[np.float64]


def mean_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``mean_k p_k`` of the tokens of an answer, in [0, 1]: the reward of RLPR (https://arxiv.org/abs/2506.18254) when
    its value without reasoning is subtracted, and CRew's confidence.

    Pays for being sure, also of a wrong answer; in agents use it on the arguments of an action.
    """
    logprob_K = _logprobs(logprob_K)
    return float(np.exp(logprob_K).mean()) if logprob_K.size else None


def product_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``Π_k p_k``, VeriFree's reward (https://arxiv.org/abs/2505.21493): falls with the length of the reference."""
    logprob_K = _logprobs(logprob_K)
    return float(np.exp(logprob_K.sum())) if logprob_K.size else None


def log_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``Σ_k log p_k`` of a whole text: unbounded below, and lower for longer texts."""
    logprob_K = _logprobs(logprob_K)
    return float(logprob_K.sum()) if logprob_K.size else None


def mean_log_probability(logprob_K: npt.ArrayLike) -> float | None:
    """``mean_k log p_k``: the same per token, so that texts of different lengths compare."""
    logprob_K = _logprobs(logprob_K)
    return float(logprob_K.mean()) if logprob_K.size else None


def perplexity(logprob_K: npt.ArrayLike) -> float | None:
    """``exp(−mean_k log p_k)``, at least 1; 1 = every token was certain."""
    logprob_K = _logprobs(logprob_K)
    return float(np.exp(-logprob_K.mean())) if logprob_K.size else None


def answer_confidence(logprob_NK: Sequence[npt.ArrayLike]) -> float | None:
    """SPAE's ``mean_n exp(−mean_k H_nk)`` over several sampled answers, in [0, 1].

    In place of the entropy H stands −log p of the token that was sampled, which is right on average; the exponential of
    a mean over few tokens is not, so the result is somewhat too high. The published one takes H over the 20 likeliest
    tokens (https://github.com/cii030/SPAE-RL), which is somewhat too low, and so the confidence too high as well.
    Answers without tokens do not count; None if there is no other.
    """
    means = [mean_log_probability(logprob_K) for logprob_K in logprob_NK]
    known = [mean for mean in means if mean is not None]
    return float(np.exp(known).mean()) if known else None


def _logprobs(values: npt.ArrayLike) -> Array:
    logprob_K = np.asarray(values, np.float64)
    if logprob_K.ndim != 1 or not (logprob_K <= 0).all():
        raise ShapeError(f"log-probabilities of shape {logprob_K.shape} must be flat and at most 0")
    return logprob_K
