"""Shapings: what a token is worth that was not sampled from the policy in the context in which it is learned.

Notation: u = π_θ/μ of a token, log u cut to ±20; μ is the sampler's probability in the context with the hint. For a
token of an expert nobody gave one: μ is 1, so u is the policy's own probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.parts import when_used
from turngate.trainer.contexts import Origin
from turngate.trainer.loss.base import ShapedOf, Shaping
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Needs, Tokens

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")

QUANTILE, LEAST_GAMMA = 0.9, 1e-4


class Shaped(Shaping):
    """Learns most from tokens of middling ratio: w·A with w = u/(u + gamma), without clipping.

    The gradient of w is ``gamma·u/(u + gamma)²·∇log π``: largest, 1/4, at u = gamma. A token that the policy hardly
    finds possible without the hint gets little of it, so knowledge that only the hint gave is not forced in; one that
    it already has gets little, too. u = 0.2 and gamma = 0.1: w = 0.667, gradient 0.222.

    Sources: for hinted tokens adaptive guidance (https://arxiv.org/abs/2506.13923; HeRL has gamma 1 or 0.1), for an
    expert's LUFFY (https://arxiv.org/abs/2504.14945, gamma 0.1).
    """

    type: Literal["shaped"] = "shaped"
    gamma: Literal["quantile"] | float = 0.1
    """Ratio at which a token is learned from most. quantile: the 0.9 quantile of the batch's ratios, which costs
    another forward pass and depends on what else is in the batch."""
    normalised: bool = False
    """Whether the weight is multiplied by 1 + gamma, so that it is 1 where the ratio is 1."""

    def model_post_init(self, context: object) -> None:
        """Raises ValueError for a gamma that is not above 0."""
        if self.gamma != "quantile" and not self.gamma > 0:
            raise ValueError(f"gamma must be above 0, found {self.gamma}; 0.1 is usual")

    @property
    def needs(self) -> Needs:
        """The whole batch, for a quantile."""
        return Needs(survey=self.gamma == "quantile")

    def __call__(self, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        return self.survey(tokens)(tokens)

    def survey(self, tokens: Tokens) -> ShapedOf:
        """The shaping with its gamma as a number."""
        gamma = quantile_gamma(tokens) if self.gamma == "quantile" else float(self.gamma)
        return _Weighed(gamma=gamma, scale=1 + gamma if self.normalised else 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weighed:
    gamma: float
    scale: float

    def __call__(self, tokens: Tokens) -> torch.Tensor:
        u = log_u(tokens).exp()
        return self.scale * u / (u + self.gamma) * tokens.advantage


def quantile_gamma(tokens: Tokens) -> float:
    """The 0.9 quantile, interpolated, of u over the tokens that carry credit, at least 1e-4; also if there are none."""
    u = log_u(tokens).detach()[tokens.counted].exp()
    return max(float(u.double().quantile(QUANTILE)), LEAST_GAMMA) if len(u) else LEAST_GAMMA


class RlPlus(Shaping):
    """RL-PLUS: the ratio to a mixture of policy and expert, with more credit for tokens that the policy finds unlikely.

    ``u·(1 − π)^focus·A`` with ``u = π/(½·π_old + ½·μ)``, where π_old is the policy before the step's first update and
    the power has no gradient. u is at most 2/μ, so nothing is clipped. https://arxiv.org/abs/2508.00222, from its
    abstract: the form of the power is reconstructed.
    """

    type: Literal["rl_plus"] = "rl_plus"
    focus: float = Field(1.0, ge=0)
    """How much less a token counts that the policy already finds likely: the power of one minus its probability; 0 =
    all alike."""

    @property
    def needs(self) -> Needs:
        """π_old."""
        return Needs(proximal=True)

    def __call__(self, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        old = tokens.required("proximal_logprob", "rl_plus")
        mixed = torch.logaddexp(old, tokens.sampled_logprob) - torch.log(torch.full_like(old, 2.0))
        logprob = _written(tokens)
        u = (logprob - mixed).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
        return u * (1 - logprob.detach().exp()).clamp(min=0) ** self.focus * tokens.advantage


def log_u(tokens: Tokens) -> torch.Tensor:
    """log π_θ − log μ of each token, at most ±20: [S]. Carries gradient inside."""
    return (_written(tokens) - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def _written(tokens: Tokens) -> torch.Tensor:
    """log π_θ; of an expert's tokens over the whole vocabulary, because top-p and top-k did not bind the expert."""
    if tokens.plain_logprob is None or tokens.origin is None:
        return tokens.logprob
    return torch.where(tokens.origin == Origin.EXPERT, tokens.plain_logprob, tokens.logprob)
