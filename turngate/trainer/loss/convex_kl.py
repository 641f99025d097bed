"""A penalty between two models: the one that training began from, and the policy before the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.parts import when_used
from turngate.trainer.loss.base import Penalty
from turngate.trainer.loss.kl import LARGEST_WEIGHT, kl_estimate
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Needs, Tokens
from turngate.types import Metrics

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


class ConvexKl(Penalty):
    """ReMix's penalty: keeps the policy close both to the model that training began from and to itself before the step.

    ``coef·(base·KL(π ‖ π_base) + (1 − base)·KL(π ‖ π_prev))``, for steps with several updates on the same episodes.
    With base = 0.7, KL 0.02 and 0.01: 0.017. Value and gradient of each KL are those of the penalty ``kl`` (k3, exact
    gradient, importance weight to the sampler of at most 10). Source: https://arxiv.org/abs/2507.06892.
    """

    type: Literal["kl_convex"] = "kl_convex"
    coef: float = Field(1e-3, gt=0)
    """Strength of the penalty per nat of divergence."""
    base: float = Field(0.7, gt=0, lt=1)
    """Share of the divergence from the model that training began from (λ in the paper); the rest is that from the
    policy before the step."""

    @property
    def needs(self) -> Needs:
        """Both models."""
        return Needs(reference=True, proximal=True)

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """A scalar, and the sum of the two as it was measured."""
        to_base = tokens.whole_logprob - tokens.required("reference_logprob", "kl_convex")
        to_previous = tokens.logprob - tokens.required("proximal_logprob", "kl_convex")
        to_sampler = (tokens.logprob.detach() - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        weight = tokens.policy_weight * to_sampler.exp().clamp(max=LARGEST_WEIGHT)
        measured, pull = torch.zeros_like(weight), torch.zeros_like(weight)
        for share, x, logprob in (
            (self.base, to_base, tokens.whole_logprob),
            (1 - self.base, to_previous, tokens.logprob),
        ):
            k, cut = kl_estimate(x.detach(), "k3"), x.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
            measured = measured + share * k
            pull = pull + share * (k + cut * (logprob - logprob.detach()))
        told = float((weight * measured).detach().sum()) / tokens.total
        return self.coef * (weight * pull).sum(), {"policy/kl_convex_nats": told}
