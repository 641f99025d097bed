"""Staying near a reference model: estimators of KL(π ‖ π_ref) per token, and a penalty with the right gradient.

x = log π − log π_ref of a token sampled from π, in nats (Schulman 2020, http://joschu.net/blog/kl-approx.html):

==== ================ ============================== ====================================================
k1   x                unbiased, can be negative      as a loss: gradient 0 in expectation
k2   x²/2             biased, low variance           as a loss: the gradient of KL(π ‖ π_ref), exactly
k3   e^{−x} − 1 + x   unbiased, never negative       as a loss: the gradient of KL(π_ref ‖ π), the other one
==== ================ ============================== ====================================================

So value and gradient are taken apart here. For the same thing inside the reward see ``kl_reward``.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Memory, Needs, Tokens
from turngate.types import Metrics

Estimator: TypeAlias = Literal["k1", "k2", "k3"]

log = logging.getLogger(__name__)
COEFFICIENT = "kl_coef"
LARGEST_WEIGHT = (
    10.0  # a token that the policy now likes ten times as much as its sampler did pulls no harder than that
)


def kl_estimate(x: torch.Tensor, estimator: Estimator) -> torch.Tensor:
    """The estimator of the table above at ``x`` = log π − log π_ref, cut to ±20: [S]."""
    x = x.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return x
    return x**2 / 2 if estimator == "k2" else torch.expm1(-x) + x


def adapted(coef: float, kl: float, *, target: float, n: int, horizon: int) -> float:
    """``coef·(1 + clip(kl/target − 1, ±0.2)·n/horizon)``: the coefficient after a batch of ``n`` episodes.

    Source: Ziegler et al., https://arxiv.org/abs/1909.08593. At kl = target it stays.
    """
    return coef * (1 + max(-0.2, min(0.2, kl / target - 1)) * n / horizon)


@dataclass(frozen=True, slots=True, kw_only=True)
class KlPenalty:
    """``coef·Σ w·ρ·k`` with k = ``estimator`` per token, ρ = sg(π/μ) to the sampler, at most 10.

    ``gradient="exact"`` (default): whatever k is reported, the gradient is ``coef·Σ w·ρ·x·∇log π``, which is unbiased
    for ∇KL(π ‖ π_ref), on-policy and off-policy (up to the bound of ρ). It equals autograd of ρ·k2, and of r·k3 with r
    carrying gradient (DeepSeek-V3.2, https://arxiv.org/abs/2512.02556). ``gradient="estimator"`` differentiates k
    itself, as many trainers do: k1 then pulls nowhere and is refused; k3 pulls along ∇KL(π_ref ‖ π), which is warned
    about once.

    ``target`` and ``horizon`` (both or neither): the coefficient adapts after each batch (see ``adapted``), and is kept
    with the learner's state. Default coef 1e-3, a common one. π = π_ref: value and gradient are 0. Needs
    ``reference_logprob``. Raises ConfigError for settings out of range or without effect.
    """

    coef: float = 1e-3
    estimator: Estimator = "k3"
    gradient: Literal["exact", "estimator"] = "exact"
    target: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        if self.coef <= 0:
            raise ConfigError(
                f"a KL penalty needs coef > 0, found {self.coef}; leave it out instead of setting it to 0"
            )
        if (self.target is None) != (self.horizon is None):
            raise ConfigError("an adaptive KL coefficient needs both target and horizon; one alone has no effect")
        if self.target is not None and self.horizon is not None and (self.target <= 0 or self.horizon <= 0):
            raise ConfigError(f"target and horizon must be above 0, found {self.target} and {self.horizon}")
        if self.gradient == "estimator":
            if self.estimator == "k1":
                raise ConfigError("k1 as a loss has gradient 0 in expectation; use gradient='exact' or estimator='k2'")
            if self.estimator == "k3":
                _warn_of_k3()

    @property
    def needs(self) -> Needs:
        """The reference model; a look at the whole batch if the coefficient adapts."""
        return Needs(reference=True, survey=self.target is not None)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[KlPenalty, Memory]:
        """The coefficient of this batch, and the next one from the KL measured in it."""
        if self.target is None or self.horizon is None:
            return self, memory
        coef = memory.get(COEFFICIENT, self.coef)
        kl = self._weighted(tokens, kl_estimate(self._x(tokens), self.estimator)).sum().item() / tokens.total
        n_episodes = len(set(tokens.segment.tolist()))
        following = adapted(coef, kl, target=self.target, n=n_episodes, horizon=self.horizon)
        return replace(self, coef=coef), {**memory, COEFFICIENT: following}

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar, and the KL that was measured."""
        x = self._x(tokens)
        k = kl_estimate(x, self.estimator)
        measured = float(self._weighted(tokens, k).detach().sum()) / tokens.total
        if self.gradient == "exact":
            cut = x.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            k = k.detach() + cut * (tokens.logprob - tokens.logprob.detach())
        return self.coef * self._weighted(tokens, k).sum(), {"policy/kl_to_reference_nats": measured}

    def _x(self, tokens: Tokens) -> torch.Tensor:
        return tokens.logprob - tokens.required("reference_logprob", "KlPenalty")

    def _weighted(self, tokens: Tokens, k: torch.Tensor) -> torch.Tensor:
        to_sampler = (tokens.logprob.detach() - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return tokens.policy_weight * to_sampler.exp().clamp(max=LARGEST_WEIGHT) * k


@functools.cache
def _warn_of_k3() -> None:
    log.warning(
        "k3 differentiated as a loss has the gradient of KL(reference ‖ policy), not of KL(policy ‖ reference); "
        "gradient='exact' keeps k3's value with the right gradient"
    )
