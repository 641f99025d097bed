"""The loss of a batch: an objective, a correction, penalties and cross-entropy over flat tokens, in torch.

Every loss is a plain weighted sum over tokens: ``Tokens`` carries the normalisation in its weights, so the sum over
micro-batches is the loss of the batch, whichever way it was cut. Metrics are such sums too and simply add up. What
depends on the whole batch (a selection, an anchor) is fixed before by ``survey``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.corrections import Correction
from turngate.trainer.loss.entropy import EntropyBonus
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Gain, Loss, Memory, Needs, Objective, Penalty, Surveyed, Tokens
from turngate.types import Metrics

__all__ = ["MAX_LOG_RATIO", "ClippedLoss", "Loss", "PolicyLoss", "Tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """``−Σ w·c·objective + penalties − Σ ce_weight·log π_plain``.

    w is ``policy_weight``, c the stop-gradient weight of ``correction`` (1 without). ``decoupled``: the ratio of the
    objective is taken against a snapshot from before the first update (π_old), and the correction covers the way from
    the sampler (μ) to it: decoupled PPO (Hilton et al. 2021, https://arxiv.org/abs/2110.00641; AReaL,
    https://arxiv.org/abs/2505.24298). Otherwise the sampler stands for π_old.

    Rejected tokens keep their place in the normalisation: rejection makes the step smaller and does not weigh the
    survivors up. All rejected: the policy loss is 0.

    Raises ConfigError for a combination that would count a ratio twice or have no effect.
    """

    objective: Objective
    correction: Correction | None = None
    penalties: tuple[Penalty, ...] = ()
    decoupled: bool = False

    def __post_init__(self) -> None:
        weighs = self.correction is not None and self.correction.weighs
        if weighs and self.objective.uses_ratio and not self.decoupled:
            raise ConfigError(
                f"{type(self.objective).__name__} already carries the ratio to the sampler, so weighting by it would "
                "count it twice; set decoupled, or keep only rejections in the correction"
            )
        if self.decoupled and not self.objective.uses_ratio and self.correction is None:
            raise ConfigError(
                f"decoupled has no effect: {type(self.objective).__name__} uses no ratio; add a correction"
            )

    @property
    def needs(self) -> Needs:
        """What all parts ask for together."""
        parts = [self.objective.needs, *(penalty.needs for penalty in self.penalties)]
        if self.correction is not None:
            parts.append(self.correction.needs)
        return reduce(Needs.__or__, parts, Needs(proximal=self.decoupled))

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[PolicyLoss, Memory]:
        """This loss with everything fixed that the whole batch decides. ``tokens`` are all of it, detached."""
        objective, memory = _survey(self.objective, tokens, memory)
        correction, memory = _survey(self.correction, tokens, memory)
        penalties = []
        for penalty in self.penalties:
            fixed, memory = _survey(penalty, tokens, memory)
            penalties.append(fixed)
        return replace(self, objective=objective, correction=correction, penalties=tuple(penalties)), memory

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss and its diagnostics; ``policy/…`` are averages weighted as the policy loss is.

        ``kl_to_sampler`` estimates KL(sampler ‖ policy) by r − 1 − log r, whose mean over sampled tokens is exact.
        """
        gain, weight, metrics = self.objective(tokens), tokens.policy_weight, Metrics()
        if self.correction is not None:
            corrected, found = self.correction(tokens)
            weight, metrics = weight * corrected, metrics | found
        policy = -(weight * gain.value).sum()
        logprob = tokens.logprob if tokens.plain_logprob is None else tokens.plain_logprob
        imitation = -(tokens.ce_weight * logprob).sum()
        total = policy + imitation
        for penalty in self.penalties:
            added, found = penalty(tokens)
            total, metrics = total + added, metrics | found
        return total, metrics | _diagnostics(tokens, gain, policy, imitation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedLoss:
    """``PolicyLoss`` with the clipped surrogate (see ``objectives.Clipped``) and an entropy bonus per token.

    On-policy r = 1 and the gradient is that of REINFORCE. Cross-entropy tokens add ``−ce_weight·logprob``.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 3.0
    entropy_bonus: float = 0.0

    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """The loss and its diagnostics (see ``PolicyLoss``)."""
        objective = Clipped(clip_low=self.clip_low, clip_high=self.clip_high, dual_clip=self.dual_clip)
        bonus = (EntropyBonus(coef=self.entropy_bonus),) if self.entropy_bonus else ()
        return PolicyLoss(objective=objective, penalties=bonus)(tokens)


@torch.no_grad()
def _diagnostics(tokens: Tokens, gain: Gain, policy: torch.Tensor, imitation: torch.Tensor) -> Metrics:
    share = tokens.policy_weight / tokens.total
    to_sampler = (tokens.logprob - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return {
        "loss/policy": policy.item(),
        "loss/imitation": imitation.item(),
        "policy/entropy_nats": (share * tokens.entropy).sum().item(),
        "policy/clipped_share": (share * gain.limited).sum().item(),
        "policy/kl_to_sampler_nats": (share * (torch.expm1(to_sampler) - to_sampler)).sum().item(),
    }


def _survey(part: Any, tokens: Tokens, memory: Memory) -> tuple[Any, Memory]:
    return part.survey(tokens, memory) if isinstance(part, Surveyed) else (part, memory)
