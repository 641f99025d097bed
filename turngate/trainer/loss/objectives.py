"""What is made of credit and ratio, token by token: one small class per published objective.

Notation: x = log π_θ − log π_old of a token, r = exp(x), A its credit, sg(·) stop-gradient. All return the value to be
raised, [S]. On-policy (x = 0) the gradient of every one is that of REINFORCE, A·∇log π, unless it says otherwise.

Credit differs from turn to turn here, while GSPO and GMPO were published for one A per sequence. They are taken in
their token form: the unit's ratio decides value and clipping, and the gradient of each token is weighted by that
token's own A. With one A per unit and tokens averaged in the unit, value and gradient are those of the published form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.entropy import above_quantile
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Gain, Needs, Tokens, mean_over, owners


def clipped_gain(ratio: torch.Tensor, advantage: torch.Tensor, low: float, high: float, dual: float | None) -> Gain:
    """``min(r·A, clip(r, 1−low, 1+high)·A)``, and where A < 0 at least ``dual·A``."""
    clipped = ratio.clamp(1 - low, 1 + high)
    value = torch.minimum(ratio * advantage, clipped * advantage)
    if dual is not None:
        value = torch.where(advantage < 0, torch.maximum(value, dual * advantage), value)
    return Gain(value=value, limited=ratio * advantage > clipped * advantage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """PPO's clipped surrogate (https://arxiv.org/abs/1707.06347, eq. 7), bounds apart (DAPO, 2503.14476), dual clip.

    ``min(r·A, clip(r, 1−clip_low, 1+clip_high)·A)``; where A < 0 the objective is at least ``dual_clip·A`` (Ye et al.,
    https://arxiv.org/abs/1912.09729), so that one token which the policy has left cannot dominate. Defaults: DAPO's
    0.2 and 0.28; dual clip 3 is verl's. A = 0 gives 0. Raises ConfigError for bounds out of range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 3.0
    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bounds("Clipped", self.clip_low, self.clip_high)
        _check_dual("Clipped", self.dual_clip)

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        return clipped_gain(tokens.log_ratio().exp(), tokens.advantage, self.clip_low, self.clip_high, self.dual_clip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gspo:
    """Group sequence policy optimisation (https://arxiv.org/abs/2507.18071): one ratio per sequence, or per turn.

    ``s = exp(mean_j x_j)`` over the unit's policy tokens; each token has ``s_j = sg(s)·π/sg(π)``, equal to s with the
    gradient of its own log π, and the objective ``min(s_j·A_j, clip(s_j, 1−clip_low, 1+clip_high)·A_j)``. A unit is
    clipped as a whole for each sign of A. Defaults: the paper's 3e-4 and 4e-4, so tiny that nearly everything clips
    where sampler and learner differ by more than rounding: correct for that first. ``unit="turn"`` is ours: one ratio
    per decision of an agent, so that a long episode is not judged by one number. A unit of one token: PPO's ratio.
    Meant for an aggregate that averages inside the unit. Raises ConfigError for bounds out of range.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    clip_low: float = 3e-4
    clip_high: float = 4e-4
    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bounds("Gspo", self.clip_low, self.clip_high)

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        x = tokens.logprob.detach() - tokens.old_logprob
        mean = mean_over(x, owners(tokens, self.unit), tokens.counted).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return clipped_gain(mean.exp() * _follow(tokens.logprob), tokens.advantage, self.clip_low, self.clip_high, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cispo:
    """Clipped importance weights (MiniMax-M1, https://arxiv.org/abs/2506.13585): no token loses its gradient.

    ``sg(clip(r, floor, cap))·A·log π``. ``cap`` is the largest weight itself, 5 as ScaleRL has it (2510.13786); verl's
    ``clip_ratio_high = 0.28`` means cap = 1.28 and floor = 0.8. Tokens with r → 0 vanish; a large cap means large
    variance. Raises ConfigError unless 0 ≤ floor ≤ 1 ≤ cap: on-policy weights must be 1.
    """

    floor: float = 0.0
    cap: float = 5.0
    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1 <= self.cap:
            raise ConfigError(f"Cispo needs 0 ≤ floor ≤ 1 ≤ cap, found floor={self.floor}, cap={self.cap}")

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens whose weight was cut; they keep a gradient."""
        ratio = tokens.log_ratio().detach().exp()
        weight = ratio.clamp(self.floor, self.cap)
        return Gain(value=weight * tokens.advantage * tokens.logprob, limited=weight != ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gmpo:
    """Geometric-mean policy optimisation (https://arxiv.org/abs/2507.20673), per sequence or per turn.

    x is cut on the side where it would help, at most ``clip_high`` where A > 0 and at least ``−clip_low`` where A < 0,
    both where A = 0 (bounds are of the logarithm; the paper's 0.4). The unit's ratio is ``ρ = exp(mean_j x_j)``, and
    each token has ``A_j·sg(ρ)·exp(x_j − sg(x_j))``, which is A·ρ with the gradient A·ρ·∇log π of tokens that were not
    cut. Meant for an aggregate that averages inside the unit. Raises ConfigError for bounds that are not positive.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    clip_low: float = 0.4
    clip_high: float = 0.4
    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.clip_low <= 0 or self.clip_high <= 0:
            raise ConfigError(f"Gmpo needs bounds above 0, found {self.clip_low} and {self.clip_high}")

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens whose x was cut."""
        x, advantage = tokens.log_ratio(), tokens.advantage
        low = torch.where(advantage > 0, -MAX_LOG_RATIO, torch.full_like(x, -self.clip_low))
        high = torch.where(advantage < 0, MAX_LOG_RATIO, torch.full_like(x, self.clip_high))
        cut = x.clamp(low, high)
        rho = mean_over(cut.detach(), owners(tokens, self.unit), tokens.counted).exp()
        return Gain(value=advantage * rho * _follow(cut), limited=cut != x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sapo:
    """Soft adaptive policy optimisation (https://arxiv.org/abs/2511.20347): a smooth gate instead of a clip.

    ``A·(4/τ)·sigmoid(τ·(r − 1))`` with τ = ``tau_positive`` where A > 0, else ``tau_negative``; the paper's 1.0 and
    1.05 let a bad token's gradient fade a little sooner. The gate's slope is 1 at r = 1, so on-policy it is REINFORCE
    in the gradient (its value is 2A/τ). Raises ConfigError for a temperature that is not positive.
    """

    tau_positive: float = 1.0
    tau_negative: float = 1.05
    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.tau_positive <= 0 or self.tau_negative <= 0:
            raise ConfigError(f"Sapo needs temperatures above 0, found {self.tau_positive} and {self.tau_negative}")

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. Nothing is cut, so nothing is ``limited``."""
        advantage = tokens.advantage
        tau = torch.where(advantage > 0, self.tau_positive, torch.full_like(advantage, self.tau_negative))
        gate = 4 / tau * torch.sigmoid(tau * (tokens.log_ratio().exp() - 1))
        return Gain(value=gate * advantage, limited=torch.zeros_like(tokens.counted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinforce:
    """``A·log π``: the plain policy gradient (Williams 1992). Uses no ratio.

    Right on-policy only; off-policy give it a ``Correction``, which makes it importance-weighted REINFORCE.
    """

    needs: ClassVar[Needs] = Needs()
    uses_ratio: ClassVar[bool] = False

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]."""
        return Gain(value=tokens.advantage * tokens.logprob, limited=torch.zeros_like(tokens.counted))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimKo:
    """Clipped surrogate that shares credit with rivals at uncertain tokens (https://arxiv.org/abs/2510.14807).

    At tokens whose entropy lies strictly above the ``quantile`` of their trajectory's tokens:

    * A > 0: r becomes ``(1−alpha)·r + (alpha/K)·Σ_k sg(r)·π_k/sg(π_k)`` over the K = ``candidates`` likeliest tokens:
      the same value, while a share ``alpha`` of the gradient raises the K candidates alike;
    * A < 0 and the sampled token is the likeliest: A is multiplied by ``boost``.

    Published for whole answers that are right or wrong; here the sign of a token's A takes that place, and A = 0 is
    untouched. Defaults: the authors' code, alpha 0.01, K = 3, quantile 0.8, boost 1.1. alpha = 0 and boost = 1 would be
    ``Clipped``. On-policy the gradient is REINFORCE's except at the tokens named above. Needs whole trajectories in one
    pass. Raises ConfigError for settings out of range or without effect.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = 3.0
    alpha: float = 0.01
    candidates: int = 3
    quantile: float = 0.8
    boost: float = 1.1
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_bounds("SimKo", self.clip_low, self.clip_high)
        _check_dual("SimKo", self.dual_clip)
        if not 0 <= self.alpha <= 1 or self.boost < 1 or not 0 <= self.quantile < 1 or self.candidates < 1:
            raise ConfigError(
                f"SimKo needs 0 ≤ alpha ≤ 1, boost ≥ 1, 0 ≤ quantile < 1 and candidates ≥ 1, found alpha={self.alpha}, "
                f"boost={self.boost}, quantile={self.quantile}, candidates={self.candidates}"
            )
        if self.alpha == 0 and self.boost == 1:
            raise ConfigError("SimKo with alpha=0 and boost=1 does nothing beyond Clipped; use Clipped")

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


def _check_bounds(who: str, low: float, high: float) -> None:
    if not 0 <= low <= 1 or high < 0:
        raise ConfigError(f"{who} needs 0 ≤ clip_low ≤ 1 and clip_high ≥ 0, found {low} and {high}")


def _check_dual(who: str, dual: float) -> None:
    if dual <= 1:
        raise ConfigError(f"{who} needs dual_clip above 1, found {dual}")
