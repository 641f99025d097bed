"""Objectives: how credit and importance ratio become the value of a token; one small class per published method.

Notation: x = log π_θ − log π_old of a token, r = exp(x), A its credit, sg(·) stop-gradient. All return the value to be
raised, [S]. On-policy (x = 0) the gradient of every one is that of REINFORCE, A·∇log π, unless it says otherwise.

Credit differs from turn to turn here, while GSPO and GMPO were published for one A per sequence. They are used in
their token form: the ratio of the whole unit decides value and clipping, and the gradient of each token is weighted by
that token's own A. If A is the same throughout a unit and tokens are averaged in it, value and gradient are the
published ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from turngate.parts import when_used
from turngate.trainer.loss.base import Gain, Objective
from turngate.trainer.loss.entropy import above_quantile
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Needs, Tokens, mean_over, owners

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


def clipped_gain(ratio: torch.Tensor, advantage: torch.Tensor, low: float, high: float, dual: float | None) -> Gain:
    """``min(r·A, clip(r, 1−low, 1+high)·A)``, and where A < 0 at least ``dual·A``."""
    clipped = ratio.clamp(1 - low, 1 + high)
    value = torch.minimum(ratio * advantage, clipped * advantage)
    if dual is not None:
        value = torch.where(advantage < 0, torch.maximum(value, dual * advantage), value)
    return Gain(value=value, limited=ratio * advantage > clipped * advantage)


class _DualClip(Objective):
    """Settings of the clipped surrogate."""

    clip_low: float = Field(0.2, ge=0, le=1)
    """A token that became less likely than 1 − clip_low times its old probability is pushed down no further."""
    clip_high: float = Field(0.28, ge=0)
    """A token that became more likely than 1 + clip_high times its old probability is pushed up no further."""
    dual_clip: float = Field(3.0, gt=1)
    """Where the advantage is negative, the objective is at least dual_clip times the advantage, so that one token with
    a large ratio cannot dominate."""


class Clipped(_DualClip):
    """PPO's clipped surrogate: a token that has moved far enough from its old probability is pushed no further.

    ``min(r·A, clip(r, 1−clip_low, 1+clip_high)·A)`` (https://arxiv.org/abs/1707.06347, eq. 7), with separate bounds
    (DAPO, https://arxiv.org/abs/2503.14476). Where A < 0 the value is at least ``dual_clip·A`` (Ye et al.,
    https://arxiv.org/abs/1912.09729), so that one token whose ratio has become large cannot dominate. Defaults: DAPO's
    0.2 and 0.28; dual clip 3 is verl's. A = 0 gives 0.
    """

    type: Literal["clipped"] = "clipped"

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        return clipped_gain(tokens.log_ratio().exp(), tokens.advantage, self.clip_low, self.clip_high, self.dual_clip)


class Gspo(Objective):
    """GSPO: like PPO's clipped surrogate, with one ratio for a whole episode or turn instead of one for each token.

    Group sequence policy optimisation (https://arxiv.org/abs/2507.18071). With x_j the log-ratio of token j, ``s =
    exp(mean_j x_j)`` over the unit's policy tokens; each token has ``s_j = sg(s)·π/sg(π)``, equal to s with the
    gradient of its own log π, and the objective ``min(s_j·A_j, clip(s_j, 1−clip_low, 1+clip_high)·A_j)``. A unit is
    clipped as a whole for each sign of A. Defaults: the paper's 3e-4 and 4e-4, so small that nearly every unit is
    clipped where sampler and learner differ by more than rounding; correct for that first. ``unit="turn"`` is ours: one
    ratio per decision of an agent, so that a long episode does not have a single ratio. A unit of one token has PPO's
    ratio. Use it with an aggregate that averages inside the unit.
    """

    type: Literal["gspo"] = "gspo"
    unit: Literal["turn", "sequence"] = "sequence"
    """Unit over which the importance ratio is computed: one turn, or the whole sequence."""
    clip_low: float = Field(3e-4, ge=0, le=1)
    """A unit whose ratio is below 1 − clip_low is pushed down no further. Raise both bounds where sampler and learner
    differ by more than rounding, or nearly every unit is clipped."""
    clip_high: float = Field(4e-4, ge=0)
    """A unit whose ratio is above 1 + clip_high is pushed up no further."""

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        x = tokens.logprob.detach() - tokens.old_logprob
        mean = mean_over(x, owners(tokens, self.unit), tokens.counted).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return clipped_gain(mean.exp() * _follow(tokens.logprob), tokens.advantage, self.clip_low, self.clip_high, None)


class Cispo(Objective):
    """CISPO: the policy gradient under clipped importance weights, so that no token loses its gradient.

    ``sg(clip(r, floor, cap))·A·log π`` (MiniMax-M1, https://arxiv.org/abs/2506.13585). ``cap`` is the largest weight
    itself, 5 as ScaleRL has it (2510.13786); verl's ``clip_ratio_high = 0.28`` means cap = 1.28 and floor = 0.8.
    On-policy weights are 1, so floor ≤ 1 ≤ cap. Tokens with r → 0 lose their gradient; a large cap means large
    variance.
    """

    type: Literal["cispo"] = "cispo"
    floor: float = Field(0.0, ge=0, le=1)
    """Smallest weight of a token; above 0, tokens that have become very unlikely keep some gradient."""
    cap: float = Field(5.0, ge=1)
    """Largest weight of a token; what others write as a clip of 0.28 is 1.28 here."""

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens whose weight was cut; they keep a gradient."""
        ratio = tokens.log_ratio().detach().exp()
        weight = ratio.clamp(self.floor, self.cap)
        return Gain(value=weight * tokens.advantage * tokens.logprob, limited=weight != ratio)


class Gmpo(Objective):
    """GMPO: like GSPO, with the ratio of each token clipped before their geometric mean is taken.

    Geometric-mean policy optimisation (https://arxiv.org/abs/2507.20673), per sequence or per turn.

    x is cut on the side where a larger step would raise the objective: at most ``clip_high`` where A > 0 and at least
    ``−clip_low`` where A < 0, both where A = 0 (bounds are of the logarithm; the paper's 0.4). The unit's ratio is ``ρ
    = exp(mean_j x_j)``, and each token has ``A_j·sg(ρ)·exp(x_j − sg(x_j))``, which is A·ρ with the gradient A·ρ·∇log π
    of tokens that were not cut. Use it with an aggregate that averages inside the unit.
    """

    type: Literal["gmpo"] = "gmpo"
    unit: Literal["turn", "sequence"] = "sequence"
    """Unit over which the geometric mean of the ratios is taken: one turn, or the whole sequence."""
    clip_low: float = Field(0.4, gt=0)
    """Lower bound of the logarithm of a token's ratio, as −clip_low, where the advantage is negative."""
    clip_high: float = Field(0.4, gt=0)
    """Upper bound of the logarithm of a token's ratio, where the advantage is positive."""

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens whose x was cut."""
        x, advantage = tokens.log_ratio(), tokens.advantage
        low = torch.where(advantage > 0, -MAX_LOG_RATIO, torch.full_like(x, -self.clip_low))
        high = torch.where(advantage < 0, MAX_LOG_RATIO, torch.full_like(x, self.clip_high))
        cut = x.clamp(low, high)
        rho = mean_over(cut.detach(), owners(tokens, self.unit), tokens.counted).exp()
        return Gain(value=advantage * rho * _follow(cut), limited=cut != x)


class Sapo(Objective):
    """SAPO: the gradient of a token fades smoothly as its ratio leaves 1, instead of being clipped.

    Soft adaptive policy optimisation (https://arxiv.org/abs/2511.20347).

    ``A·(4/τ)·sigmoid(τ·(r − 1))`` with τ = ``tau_positive`` where A > 0, else ``tau_negative``; the paper's 1.0 and
    1.05 let the gradient of a token with A < 0 fade a little sooner. The slope is 1 at r = 1, so on-policy the gradient
    is that of REINFORCE (the value is 2A/τ).
    """

    type: Literal["sapo"] = "sapo"
    tau_positive: float = Field(1.0, gt=0)
    """Where the advantage is positive: the larger, the sooner the gradient fades as the ratio leaves 1."""
    tau_negative: float = Field(1.05, gt=0)
    """Where the advantage is negative: the larger, the sooner the gradient fades as the ratio leaves 1."""

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. Nothing is cut, so nothing is ``limited``."""
        advantage = tokens.advantage
        tau = torch.where(advantage > 0, self.tau_positive, torch.full_like(advantage, self.tau_negative))
        gate = 4 / tau * torch.sigmoid(tau * (tokens.log_ratio().exp() - 1))
        return Gain(value=gate * advantage, limited=torch.zeros_like(tokens.counted))


class Reinforce(Objective):
    """The plain policy gradient, without ratio and clipping: for one update per step.

    ``A·log π`` (Williams 1992). It is right on-policy only; off-policy add a correction that weighs, which makes it
    importance-weighted REINFORCE.
    """

    type: Literal["reinforce"] = "reinforce"
    uses_ratio: ClassVar[bool] = False

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        return Gain(value=tokens.advantage * tokens.logprob, limited=torch.zeros_like(tokens.counted))


class SimKo(_DualClip):
    """SimKO: PPO's clipped surrogate that, at uncertain tokens, shares credit with the likeliest alternatives.

    https://arxiv.org/abs/2510.14807. At tokens whose entropy lies strictly above the ``quantile`` of their trajectory's
    tokens:

    * A > 0: r becomes ``(1−alpha)·r + (alpha/K)·Σ_k sg(r)·π_k/sg(π_k)`` over the K = ``candidates`` likeliest tokens:
      the same value, while a share ``alpha`` of the gradient raises the K candidates alike;
    * A < 0 and the sampled token is the likeliest: A is multiplied by ``boost``.

    The paper treats whole answers as right or wrong; here the sign of a token's A decides, and A = 0 changes nothing.
    Defaults: the authors' code, alpha 0.01, K = 3, quantile 0.8, boost 1.1. alpha = 0 and boost = 1 would be
    ``Clipped`` and are refused. On-policy the gradient is REINFORCE's except at the tokens named above. Needs whole
    trajectories in one pass.
    """

    type: Literal["simko"] = "simko"
    alpha: float = Field(0.01, ge=0, le=1)
    """Share of the gradient that goes to the likeliest tokens, at uncertain tokens with positive advantage."""
    candidates: int = Field(3, ge=1)
    """Number of likeliest tokens among which this share is split."""
    quantile: float = Field(0.8, ge=0, lt=1)
    """A token is uncertain if its entropy lies above this quantile of its trajectory."""
    boost: float = Field(1.1, ge=1)
    """Factor on a negative advantage, at uncertain tokens where the sampled token is the likeliest."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.alpha == 0 and self.boost == 1:
            raise ValueError("alpha = 0 and boost = 1 do nothing beyond type = 'clipped'; use that")
        return self

    @property
    def needs(self) -> Needs:
        """The likeliest tokens."""
        return Needs(candidates=self.candidates)

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        rivals = tokens.required("candidate_logprob", "SimKo")[:, : self.candidates]
        uncertain = above_quantile(tokens.entropy.detach(), tokens.segment, tokens.counted, self.quantile)
        ratio, advantage = tokens.log_ratio().exp(), tokens.advantage
        shared = (1 - self.alpha) * ratio + self.alpha * ratio.detach() * _follow(rivals).mean(-1)
        likeliest = tokens.logprob.detach() >= rivals[:, 0].detach()
        ratio = torch.where(uncertain & (advantage > 0), shared, ratio)
        advantage = torch.where(uncertain & likeliest & (advantage < 0), self.boost * advantage, advantage)
        return clipped_gain(ratio, advantage, self.clip_low, self.clip_high, self.dual_clip)


def _follow(logprob: torch.Tensor) -> torch.Tensor:
    """π/sg(π): 1 everywhere, with the gradient of ``logprob``; none where π = 0, outside a truncated support."""
    finite = torch.where(logprob == -torch.inf, 0.0, logprob)
    return (finite - finite.detach()).exp()
