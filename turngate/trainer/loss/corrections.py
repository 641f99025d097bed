"""Corrections for tokens that another policy sampled than the one that is updated: weights and rejections.

μ is the sampler, π_old the policy before the first update of a step, ρ = π_old/μ of a token (log ρ cut to ±20). If no
snapshot of π_old was taken, the current policy stands for it, with its gradient stopped. No gradient flows through a
correction. Tokens without policy weight enter no product and no mean.

Two kinds of corrections, which multiply: weights (truncated or masked importance sampling) and rejections (0 or 1 for a
whole unit). A product over a long unit explodes: with ρ = 1.1 per token it is 2.6 after 10 tokens and 13,781 after 100.
Weights per token are biased but have low variance. For agents, use tokens, or turns with their geometric mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from turngate.parts import when_used
from turngate.trainer.loss.answers import factor_of_tokens
from turngate.trainer.loss.base import Correction
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Tokens, Unit, mean_over, owners, sum_over
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

Reduce: TypeAlias = Literal["product", "mean"]


def unit_log_ratio(log_rho: torch.Tensor, tokens: Tokens, unit: Unit, reduce: Reduce) -> torch.Tensor:
    """For each token, the log of the product or geometric mean of ρ over its unit, cut to ±20: [S]."""
    over = sum_over if reduce == "product" else mean_over
    total = over(log_rho, owners(tokens, unit), tokens.counted)
    return total.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


class _Weight(Correction):
    """Base of the corrections that weigh by the importance ratio."""

    weighs: ClassVar[bool] = True
    unit: Unit = "token"
    """Unit over which the importance ratio is computed: token, turn or whole sequence."""
    reduce: Reduce = "product"
    """How the ratios of a unit's tokens become one: their product (unbiased, but extreme for long units), or their
    geometric mean."""

    @model_validator(mode="after")
    def _reduces(self) -> Self:
        if self.unit == "token" and self.reduce == "mean":
            raise ValueError("reduce = 'mean' over a single token has no effect; choose another unit")
        return self


class Truncated(_Weight):
    """TIS: weighs each unit by its importance ratio ρ to the sampler, up to a largest weight.

    Truncated importance sampling: ``min(ρ_unit, cap)``, per token, turn or trajectory.

    Source: Yao et al. 2025 for sampler and learner of different engines; Ionides 2008. cap = 2 is verl's default (1.5
    to 5 in use); below 1 it would also cut on-policy weights. For turns and trajectories ``reduce`` is the
    ``product``, which is unbiased below the cap, or the geometric ``mean``, which stays moderate for long units.
    """

    type: Literal["tis"] = "tis"
    cap: float = Field(2.0, ge=1)
    """Largest weight of a unit; raise it for less bias and more variance."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        return unit_log_ratio(log_rho, tokens, self.unit, self.reduce).exp().clamp(max=self.cap)


class Masked(_Weight):
    """MIS: weighs each unit by its importance ratio ρ to the sampler, and drops it where the ratio is far from 1.

    Masked importance sampling: ρ_unit where it lies in [low, high], else 0.

    Defaults 0.5 and 2 (MIS). IcePop (Ling team, https://arxiv.org/abs/2510.18855) is the token form with 0.5 and 5. The
    trajectory form with the product takes [1/C, C].
    """

    type: Literal["mis"] = "mis"
    low: float = Field(0.5, ge=0, le=1)
    """Units (tokens, turns or sequences) with a smaller ratio are dropped."""
    high: float = Field(2.0, ge=1)
    """Units with a larger ratio are dropped."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        ratio = unit_log_ratio(log_rho, tokens, self.unit, self.reduce).exp()
        return torch.where((ratio >= self.low) & (ratio <= self.high), ratio, 0)


class _Rejection(Correction):
    """Base of the corrections that keep or drop whole units."""

    unit: Literal["turn", "sequence"] = "sequence"
    """Unit that is kept or dropped as a whole: one turn, or the whole sequence."""


class GeometricRejection(_Rejection):
    """Drops turns or episodes of which sampler and learner disagree on average, by the ratio ρ of their tokens.

    Keep a turn or a trajectory iff the geometric mean of its ρ lies in [low, high].

    Defaults 0.999 and 1.001, verl's for engines that differ by rounding; recorded data need a wider band, for instance
    0.8 and 1.25. A unit of one token: its ρ.
    """

    type: Literal["geometric"] = "geometric"
    low: float = Field(0.999, ge=0, le=1)
    """Units whose geometric mean ratio is smaller are dropped."""
    high: float = Field(1.001, ge=1)
    """Units whose geometric mean ratio is larger are dropped."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        ratio = unit_log_ratio(log_rho, tokens, self.unit, "mean").exp()
        return ((ratio >= self.low) & (ratio <= self.high)).to(log_rho.dtype)


class DivergenceRejection(_Rejection):
    """Drops turns or episodes whose tokens diverge too much from the sampler, up or down.

    Keep a turn or a trajectory iff the mean of ``ρ − 1 − log ρ`` (k3 of KL(μ ‖ π_old)) is at most ``threshold``.

    Unlike the geometric mean, deviations up and down do not cancel. Default 0.01; 0.001 to 0.01 in use.
    """

    type: Literal["divergence"] = "divergence"
    threshold: float = Field(0.01, gt=0)
    """Units whose mean divergence from the sampler is larger are dropped; in nats per token."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        k3 = torch.expm1(log_rho) - log_rho
        mean = mean_over(k3, owners(tokens, self.unit), tokens.counted)
        return (mean <= self.threshold).to(log_rho.dtype)


class VetoRejection(_Rejection):
    """Drops turns or episodes with even one token that the learner finds far less likely than the sampler did.

    Drop a turn or a trajectory if any of its tokens has ρ below ``floor``: such a token hints at an error, for instance
    in the cache.

    Default 1e-4 (verl; 1e-6 to 1e-4 in use).
    """

    type: Literal["veto"] = "veto"
    floor: float = Field(1e-4, gt=0, lt=1)
    """Least ratio that a token may have; one token below it drops its whole unit."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        broken = (log_rho.exp() < self.floor).to(log_rho.dtype)
        return (sum_over(broken, owners(tokens, self.unit), tokens.counted) == 0).to(log_rho.dtype)


class NegativeDriftMask(_Rejection):
    """Drops the tokens with negative credit of turns or episodes that the policy has already moved away from.

    Drop tokens with A < 0 of a unit whose policy has drifted: ``mean(log μ − log π_θ) > delta``.

    Pushing down what the policy has already left only destabilises (DeepSeek-V3.2's sequence mask,
    https://arxiv.org/abs/2512.02556). Here A is the token's own. ``delta`` = 0.5 is not the paper's constant; choose
    it. Zeroing only negatives biases upwards. The drift is measured against the
    current policy, not against π_old.
    """

    type: Literal["negative_drift"] = "negative_drift"
    delta: float = Field(0.5, gt=0)
    """Tokens with negative credit are dropped in units where the mean of log sampler − log policy exceeds this; in nats
    per token."""

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        drift = mean_over(tokens.sampled_logprob - tokens.logprob.detach(), owners(tokens, self.unit), tokens.counted)
        return (~((tokens.advantage < 0) & (drift > self.delta))).to(log_rho.dtype)


# --- several together -------------------------------------------------------------------------------------------------


def log_rho_of(tokens: Tokens) -> torch.Tensor:
    """log ρ of each token, cut to ±20, without gradient: [S]."""
    old = tokens.logprob if tokens.proximal_logprob is None else tokens.proximal_logprob
    return (old.detach() - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def weight_of(corrections: Sequence[Correction], tokens: Tokens) -> torch.Tensor:
    """The product of ``corrections`` for each token, without gradient: [S]. Without any: 1."""
    with torch.no_grad():
        log_rho = log_rho_of(tokens)
        weight = torch.ones_like(log_rho)
        for correction in corrections:
            weight = weight * factor_of_tokens(correction, log_rho, tokens)
        return weight


def mean_weight(corrections: Sequence[Correction], tokens: Tokens) -> float:
    """The mean of ``weight_of`` over the tokens that carry policy credit, for ``normalize``; 0 if there are none."""
    counted = tokens.counted
    return float(weight_of(corrections, tokens)[counted].mean()) if counted.any() else 0.0


def offpolicy_metrics(tokens: Tokens, weight: torch.Tensor) -> Metrics:
    """What the weights [S] do, averaged as the policy loss is.

    ``weight`` and ``weight_square`` are means; ``weight²/weight_square`` is the effective share of the sample,
    ``(Σw)²/(n·Σw²)``: 1 where all weigh alike.
    """
    with torch.no_grad():
        share, log_rho = tokens.policy_weight / tokens.total, log_rho_of(tokens)
        return {
            "offpolicy/weight": float((share * weight).sum()),
            "offpolicy/weight_square": float((share * weight**2).sum()),
            "offpolicy/changed_share": float((share * (weight != 1)).sum()),
            "offpolicy/dropped_share": float((share * (weight == 0)).sum()),
            "offpolicy/kl_nats": float((share * (torch.expm1(log_rho) - log_rho)).sum()),
            "offpolicy/chi2": float((share * (log_rho.exp() ** 2 - 1)).sum()),
        }
