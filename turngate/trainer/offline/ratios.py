"""How far the policy is from those that played recorded episodes: diagnostics of a batch's importance ratios."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from turngate.trainer.batch.contexts import Origin
from turngate.trainer.batch.pack import only_segments
from turngate.trainer.learner import Measuring
from turngate.types import Batch, Metrics

MAX_LOG_RATIO = 20.0
MEASURED_SEGMENTS = 64
"""Replayed episodes of a step on which ratios are measured, evenly spread; measuring all would cost as much as a third
of learning from them."""


def ratio_diagnostics(log_rho_S: npt.NDArray[np.float64]) -> dict[str, float]:
    """``chi2``, ``ess_share`` and ``k3_nats`` of the ratios ρ = π/μ of tokens, with log ρ cut to ±20.

    χ² = mean ρ² − 1, the effective share of the sample (Σρ)²/(n·Σρ²), which is 1 where all weigh alike, and the mean of
    ρ − 1 − log ρ, an estimate of KL(μ ‖ π) that is never negative. Empty for no tokens.
    """
    if not len(log_rho_S):
        return {}
    log_rho = np.clip(log_rho_S.astype(np.float64), -MAX_LOG_RATIO, MAX_LOG_RATIO)
    rho = np.exp(log_rho)
    return {
        "chi2": float((rho**2).mean() - 1),
        "ess_share": float(rho.sum() ** 2 / (len(rho) * (rho**2).sum())),
        "k3_nats": float((np.expm1(log_rho) - log_rho).mean()),
    }


def ratio_metrics(batch: Batch, learner: Measuring) -> Metrics:
    """``replay/chi2``, ``replay/ess_share`` and ``replay/k3_nats`` of the replayed tokens of a batch, under the
    learner's present weights: call it before the first update. Empty where none is replayed, or where their
    log-probabilities were not recorded."""
    replayed_L = (batch.origin_L == Origin.REPLAYED) & (batch.policy_weight_L != 0) & np.isfinite(batch.logprob_L)
    segments = np.unique(batch.segment_L[replayed_L])
    if not len(segments):
        return {}
    if len(segments) > MEASURED_SEGMENTS:
        segments = segments[np.linspace(0, len(segments) - 1, MEASURED_SEGMENTS).round().astype(int)]
    chosen_L = np.isin(batch.segment_L, segments)
    part, counted = only_segments(batch, chosen_L), replayed_L[chosen_L]
    log_rho_S = learner.logprobs(part)[counted].astype(np.float64) - part.logprob_L[counted]
    return {f"replay/{name}": value for name, value in ratio_diagnostics(log_rho_S).items()}
