"""Staying close to a reference model: estimators of KL(π ‖ π_ref) per token, and a penalty with the right gradient.

x = log π − log π_ref of a token sampled from π, in nats (Schulman 2020, http://joschu.net/blog/kl-approx.html). Both
are at the sampler's temperature, over the whole vocabulary, after the same tokens, so equal models have x = 0:

==== ================ ============================== ====================================================
k1   x                unbiased, can be negative      as a loss: gradient 0 in expectation
k2   x²/2             biased, low variance           as a loss: the gradient of KL(π ‖ π_ref), exactly
k3   e^{−x} − 1 + x   unbiased, never negative       as a loss: the gradient of KL(π_ref ‖ π), the other one
==== ================ ============================== ====================================================

So here the value that is reported and the gradient are chosen separately. For KL as part of the reward see
``signals.kl_reward``.

With top-p or top-k, tokens are sampled from π_T = π/S on the kept set K, of mass S = Σ_K π, and x still compares π with
π_ref: π_T against an uncut π_ref would differ by −log S without any update, and against a π_ref cut by itself it can be
infinite. No token outside K is ever sampled, so the estimates are about K alone:

    E[k3]      = (1/S) Σ_K (π·x − π + π_ref)      at least 0, and 0 where π = π_ref on K; not KL(π ‖ π_ref)
    E[x ∇log π] = (1/S) Σ_K x·∇π                  the gradient of that sum, K and S held fixed

k1 and k2 have the means ``(1/S) Σ_K π·x`` and ``(1/S) Σ_K π·x²/2``. The penalty does not bind probabilities outside K,
which is not sampled either. With S → 1 all of this becomes the table above.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from turngate.parts import when_used
from turngate.trainer.loss.base import Penalty, PenaltyOf
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Memory, Needs, Tokens
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

Estimator: TypeAlias = Literal["k1", "k2", "k3"]

log = logging.getLogger(__name__)
COEFFICIENT = "kl_coef"
LARGEST_WEIGHT = 10.0
"""Largest importance weight of a token in the penalty, so that no single token dominates."""


def kl_estimate(x: torch.Tensor, estimator: Estimator) -> torch.Tensor:
    """The estimator of the table above at ``x`` = log π − log π_ref, cut to ±20: [S]."""
    x = x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return x
    return x**2 / 2 if estimator == "k2" else torch.expm1(-x) + x


def adapted(coef: float, kl: float, *, target: float, n: int, horizon: int) -> float:
    """``coef·(1 + clip(kl/target − 1, ±0.2)·min(n/horizon, 1))``: the coefficient after a batch of ``n`` episodes.

    Source: Ziegler et al., https://arxiv.org/abs/1909.08593. At kl = target it stays the same. That a batch
    counts for at most one horizon is ours: without it, a batch of more than five horizons could turn it negative.
    """
    return coef * (1 + max(-0.2, min(0.2, kl / target - 1)) * min(n / horizon, 1))


class KlPenalty(Penalty):
    """KL penalty: keeps the policy close to the model that training began from.

    ``coef·Σ w·ρ·k`` with k = ``estimator`` per token, ρ = sg(π_T/μ) to the sampler, at most 10, where π_T is π as top-p
    and top-k cut it. Of a token that was sampled with a hint which learning leaves out, π and π_ref are without the
    hint and μ is with it, so ρ is the ratio of two contexts, as in ``shaping``.

    ``gradient="exact"`` (default): whatever k is reported, the gradient is ``coef·Σ w·ρ·x·∇log π``, which is unbiased
    for ∇KL(π ‖ π_ref), on-policy and off-policy (up to the bound of ρ). It equals autograd of ρ·k2, and of r·k3 with r
    carrying gradient (DeepSeek-V3.2, https://arxiv.org/abs/2512.02556). ``gradient="estimator"`` differentiates k
    itself, as many trainers do: k1 then has no gradient in expectation and is refused; k3 has that of KL(π_ref ‖ π),
    of which a warning is logged once.

    With ``target`` and ``horizon`` (both or neither) the coefficient adapts after each batch (see ``adapted``); it is
    saved with the learner. The default coef of 1e-3 is a common one. At π = π_ref value and gradient are 0, however
    tokens are sampled; for the estimates with top-p or top-k see the module. Needs ``reference_logprob``.
    """

    type: Literal["kl"] = "kl"
    coef: float = Field(1e-3, gt=0)
    """Strength of the penalty per nat of divergence (β in most papers); with a target, its first value. Raise it to
    stay closer to the model that training began from."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Estimator of a token's divergence, for the value that is reported. k1 is unbiased and can be negative, k2 is
    biased with low variance, k3 is unbiased and never negative."""
    gradient: Literal["exact", "estimator"] = "exact"
    """exact: the gradient of KL(policy ‖ reference), whatever the estimator; estimator: the gradient of the estimator
    itself, which for k3 is that of KL(reference ‖ policy)."""
    target: float | None = Field(None, gt=0)
    """Divergence, in nats per token, towards which the coefficient adapts; leave it out for a fixed coefficient."""
    horizon: int | None = Field(None, ge=1)
    """Number of episodes over which the coefficient changes by at most 20 %; needed with a target."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if (self.target is None) != (self.horizon is None):
            raise ValueError("an adaptive coefficient needs both target and horizon; one alone has no effect")
        if (self.estimator, self.gradient) == ("k1", "estimator"):
            raise ValueError("k1 differentiated has gradient 0 in expectation; use gradient = 'exact'")
        if (self.estimator, self.gradient) == ("k3", "estimator"):
            _warn_of_k3()
        return self

    @property
    def needs(self) -> Needs:
        """The reference model, and the whole batch if the coefficient adapts."""
        return Needs(reference=True, survey=self.target is not None)

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[PenaltyOf, Memory]:
        """Fix the coefficient of this batch, and compute the next one from the KL measured in it."""
        if self.target is None or self.horizon is None:
            return self, memory
        coef = memory.get(COEFFICIENT, self.coef)
        kl = self._weighted(tokens, kl_estimate(self._x(tokens), self.estimator)).sum().item() / tokens.total
        n_episodes = len(set(tokens.segment.tolist()))
        following = adapted(coef, kl, target=self.target, n=n_episodes, horizon=self.horizon)
        return functools.partial(self._pull, coef=coef), {**memory, COEFFICIENT: following}

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar, and the KL that was measured."""
        return self._pull(tokens, coef=self.coef)

    def _pull(self, tokens: Tokens, *, coef: float) -> tuple[torch.Tensor, Metrics]:
        x = self._x(tokens)
        k = kl_estimate(x, self.estimator)
        measured = float(self._weighted(tokens, k).detach().sum()) / tokens.total
        if self.gradient == "exact":
            cut = x.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            k = k.detach() + cut * (tokens.whole_logprob - tokens.whole_logprob.detach())
        return coef * self._weighted(tokens, k).sum(), {"policy/kl_to_reference_nats": measured}

    def _x(self, tokens: Tokens) -> torch.Tensor:
        return tokens.whole_logprob - tokens.required("reference_logprob", "KlPenalty")

    def _weighted(self, tokens: Tokens, k: torch.Tensor) -> torch.Tensor:
        to_sampler = (tokens.logprob.detach() - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return tokens.policy_weight * to_sampler.exp().clamp(max=LARGEST_WEIGHT) * k


@functools.cache
def _warn_of_k3() -> None:
    log.warning(
        "k3 differentiated as a loss has the gradient of KL(reference ‖ policy), not of KL(policy ‖ reference); "
        "gradient='exact' keeps k3's value with the right gradient"
    )
