"""Objectives over flat tokens, in torch.

Every loss is a plain weighted sum over tokens: ``Tokens`` carries the normalisation in its weights, so the sum over
micro-batches is the loss of the batch, whichever way it was cut. Metrics are such sums too and simply add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from turngate.types import Metrics

MAX_LOG_RATIO = 20.0  # exp(20) is far outside any trust region and still finite in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The trained tokens of a micro-batch; all tensors have shape [S]. ``logprob`` and ``entropy`` carry gradient."""

    logprob: torch.Tensor
    entropy: torch.Tensor
    sampled_logprob: torch.Tensor
    advantage: torch.Tensor
    policy_weight: torch.Tensor
    ce_weight: torch.Tensor


class Loss(Protocol):
    """Tokens in; a scalar to descend and additive metrics out."""

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss as a sum over ``tokens``, and sums to report."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedLoss:
    """Clipped surrogate of PPO (Schulman et al. 2017, eq. 7) with separate bounds (DAPO, 2503.14476) and dual clip.

    ``r = exp(logprob − sampled_logprob)``; per token ``−min(r·A, clip(r, 1−low, 1+high)·A)``; where A < 0 the loss is
    also at most ``−dual·A`` (Ye et al. 2020), so one token that the policy has left cannot dominate. ``entropy_bonus``
    is added per token. On-policy r = 1 and the gradient is that of REINFORCE. Cross-entropy tokens add
    ``−ce_weight·logprob``.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 3.0
    entropy_bonus: float = 0.0

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss and its diagnostics, each a weighted sum over the policy tokens.

        ``kl_to_sampler`` estimates KL(sampler ‖ policy) by r − 1 − log r, whose mean over sampled tokens is exact.
        """
        weight, advantage = tokens.policy_weight, tokens.advantage
        log_ratio = (tokens.logprob - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        surrogate = torch.minimum(ratio * advantage, clipped * advantage)
        surrogate = torch.where(advantage < 0, torch.maximum(surrogate, self.dual_clip * advantage), surrogate)
        policy = -(weight * surrogate).sum()
        entropy = (weight * tokens.entropy).sum()
        imitation = -(tokens.ce_weight * tokens.logprob).sum()
        with torch.no_grad():
            outside = ((ratio * advantage) > (clipped * advantage)).float()
            metrics = {
                "loss/policy": policy.item(),
                "loss/imitation": imitation.item(),
                "policy/entropy_nats": entropy.item(),
                "policy/clipped_share": (weight * outside).sum().item(),
                "policy/kl_to_sampler_nats": (weight * (torch.expm1(log_ratio) - log_ratio)).sum().item(),
            }
        return policy - self.entropy_bonus * entropy + imitation, metrics
