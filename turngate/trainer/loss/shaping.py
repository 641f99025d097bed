"""Shapings: the value of a token that was not sampled from the policy in the context in which it is trained.

Notation: u = π_θ/μ of a token, log u cut to ±20. Of a hinted token, π_θ is the policy's probability in the context
without the hint and μ the sampler's in the context with it, both cut by top-p and top-k: the importance ratio between
the learned and the sampled distribution. A token that top-p or top-k cuts off without the hint has u = 0. An expert's
token was not sampled: μ is 1, so u is the policy's own probability, without top-p and top-k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.parts import when_used
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
    it already finds likely gets little, too. u = 0.2 and gamma = 0.1: w = 0.667, gradient 0.222.

    Sources: for hinted tokens adaptive guidance (https://arxiv.org/abs/2506.13923; HeRL has gamma 1 or 0.1), for an
    expert's LUFFY (https://arxiv.org/abs/2504.14945, gamma 0.1).
    """

    type: Literal["shaped"] = "shaped"
    gamma: Literal["quantile"] | float = 0.1
    """Ratio at which a token is learned from most. quantile: the 0.9 quantile of the batch's ratios, which costs
    another forward pass and depends on the other tokens of the batch."""
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
    """RL-PLUS: a ratio that needs no probability of the expert's, with more credit for tokens that the policy finds
    unlikely.

    ``u·(1 − π)^focus·A`` with ``u = 2π/(π_old + ½·(π_old + 1)) = 2π/(1.5·π_old + 0.5)``. π_old is the policy before the
    step's first update. The expert's own probability is unknown; half π_old, half certainty stands for it. The power
    has no gradient. u is at most 4, so nothing is clipped. At π = π_old = 0.1: 0.308 · √0.9 = 0.292. Source:
    https://arxiv.org/abs/2508.00222 and its code, whose power is 0.5.
    """

    type: Literal["rl_plus"] = "rl_plus"
    focus: float = Field(0.5, ge=0)
    """How much less a token counts that the policy already finds likely: the power of one minus its probability; 0 =
    all alike."""

    @property
    def needs(self) -> Needs:
        """π_old."""
        return Needs(proximal=True)

    def __call__(self, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        old, p = tokens.required("proximal_logprob", "rl_plus").exp(), tokens.logprob.exp()
        return 2 * p / (1.5 * old + 0.5) * (1 - p.detach()).clamp(min=0) ** self.focus * tokens.advantage


def log_u(tokens: Tokens) -> torch.Tensor:
    """log π_θ − log μ of each token, at most ±20: [S]. Carries gradient inside."""
    return (tokens.logprob - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
