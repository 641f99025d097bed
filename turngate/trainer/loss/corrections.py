"""The way from the sampler to the policy that is updated: importance weights and rejections, in torch, flat.

μ is the sampler, π_old the snapshot from before the first update, ρ = π_old/μ of a token (log ρ cut to ±20). Without a
snapshot the current policy, with its gradient stopped, stands for π_old. All weights are stop-gradient. Tokens without
policy weight enter no product and no mean.

Two kinds of rules, multiplied in ``Correction``: weights (truncated or masked importance sampling) and rejections
(0 or 1 for a whole unit). A product over a long unit explodes: with ρ = 1.1 per token it is 2.6 after 10 tokens and
13,781 after 100. Token weights are biased with low variance; for agents take tokens, or turns by their geometric mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, TypeAlias

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Memory, Needs, Tokens, Unit, mean_over, owners, sum_over
from turngate.types import Metrics

Reduce: TypeAlias = Literal["product", "mean"]


class Rule(Protocol):
    """log ρ [S] and the tokens in; a factor ≥ 0 per token out."""

    @property
    def weighs(self) -> bool:
        """Whether it multiplies by the ratio; else it only keeps (1) or drops (0)."""
        ...

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        ...


def unit_log_ratio(log_rho: torch.Tensor, tokens: Tokens, unit: Unit, reduce: Reduce) -> torch.Tensor:
    """log of the unit's product or geometric mean of ρ, given to each of its tokens, cut to ±20: [S]."""
    over = sum_over if reduce == "product" else mean_over
    total = over(log_rho, owners(tokens, unit), tokens.counted)
    return total.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """Truncated importance sampling: ``min(ρ_unit, cap)``. TIS per token, per turn or per trajectory.

    Source: Yao et al. 2025 for sampler and learner of different engines; Ionides 2008. cap = 2 is verl's default (1.5
    to 5 in use). Turns and trajectories reduce by the ``product``, which is unbiased below the cap, or by the geometric
    ``mean``, which a long unit does not saturate. Raises ConfigError for cap < 1, or a reduction of a single token.
    """

    unit: Unit = "token"
    reduce: Reduce = "product"
    cap: float = 2.0
    weighs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise ConfigError(f"a cap below 1 also cuts on-policy weights, found {self.cap}")
        _check_reduce(self.unit, self.reduce)

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        return unit_log_ratio(log_rho, tokens, self.unit, self.reduce).exp().clamp(max=self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """Masked importance sampling: ρ_unit inside [low, high], else 0.

    Defaults 0.5 and 2 (MIS). IcePop (Ling team, https://arxiv.org/abs/2510.18855) is the token form with 0.5 and 5. The
    trajectory form with the product takes [1/C, C]. Raises ConfigError unless 0 ≤ low ≤ 1 ≤ high.
    """

    unit: Unit = "token"
    reduce: Reduce = "product"
    low: float = 0.5
    high: float = 2.0
    weighs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_band("Masked", self.low, self.high)
        _check_reduce(self.unit, self.reduce)

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        ratio = unit_log_ratio(log_rho, tokens, self.unit, self.reduce).exp()
        return torch.where((ratio >= self.low) & (ratio <= self.high), ratio, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricRejection:
    """Keep a turn or a trajectory iff the geometric mean of its ρ lies in [low, high].

    Defaults 0.999 and 1.001, verl's for engines that differ by rounding; recorded data need a wider band, for instance
    0.8 and 1.25. A unit of one token: its ρ. Raises ConfigError unless 0 ≤ low ≤ 1 ≤ high.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    low: float = 0.999
    high: float = 1.001
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_band("GeometricRejection", self.low, self.high)

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        ratio = unit_log_ratio(log_rho, tokens, self.unit, "mean").exp()
        return ((ratio >= self.low) & (ratio <= self.high)).to(log_rho.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceRejection:
    """Keep a turn or a trajectory iff the mean of ``ρ − 1 − log ρ`` (k3 of KL(μ ‖ π_old)) is at most ``threshold``.

    Unlike the geometric mean, deviations up and down do not cancel. Default 0.01; 0.001 to 0.01 in use. Raises
    ConfigError for a threshold that is not positive.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    threshold: float = 0.01
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.threshold <= 0:
            raise ConfigError(f"DivergenceRejection needs threshold > 0, found {self.threshold}")

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        k3 = torch.expm1(log_rho) - log_rho
        mean = mean_over(k3, owners(tokens, self.unit), tokens.counted)
        return (mean <= self.threshold).to(log_rho.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Veto:
    """Drop a turn or a trajectory if any of its tokens has ρ below ``floor``: something there went wrong.

    Default 1e-4 (verl; 1e-6 to 1e-4 in use). Raises ConfigError unless 0 < floor < 1.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    floor: float = 1e-4
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.floor < 1:
            raise ConfigError(f"Veto needs 0 < floor < 1, found {self.floor}")

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        broken = (log_rho.exp() < self.floor).to(log_rho.dtype)
        return (sum_over(broken, owners(tokens, self.unit), tokens.counted) == 0).to(log_rho.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeDriftMask:
    """Drop tokens with A < 0 of a unit whose policy has drifted: ``mean(log μ − log π_θ) > delta``.

    Pushing down what the policy has already left only destabilises (DeepSeek-V3.2's sequence mask,
    https://arxiv.org/abs/2512.02556). Here A is the token's own. ``delta`` = 0.5 is not the paper's constant; choose
    it. Zeroing only negatives biases upwards. Looks at the current policy, not at π_old. Raises ConfigError for delta ≤
    0.
    """

    unit: Literal["turn", "sequence"] = "sequence"
    delta: float = 0.5
    weighs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.delta <= 0:
            raise ConfigError(f"NegativeDriftMask needs delta > 0, found {self.delta}")

    def __call__(self, log_rho: torch.Tensor, tokens: Tokens) -> torch.Tensor:
        """[S]."""
        drift = mean_over(tokens.sampled_logprob - tokens.logprob.detach(), owners(tokens, self.unit), tokens.counted)
        return (~((tokens.advantage < 0) & (drift > self.delta))).to(log_rho.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The product of ``rules``, per token. ``normalize`` divides by its mean over the batch's policy tokens.

    Rejected tokens stay in the denominator of the loss (see ``PolicyLoss``). Normalising is off by default; it undoes
    that. Where everything is rejected the weights stay 0. Raises ConfigError without rules.
    """

    rules: tuple[Rule, ...]
    normalize: bool = False
    _mean: float | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.rules:
            raise ConfigError("a correction without rules has no effect; leave it out")

    @property
    def weighs(self) -> bool:
        """Whether any rule multiplies by the ratio."""
        return any(rule.weighs for rule in self.rules)

    @property
    def needs(self) -> Needs:
        """A look at the whole batch, to normalise."""
        return Needs(survey=self.normalize)

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[Correction, Memory]:
        """Fix the mean that weights are divided by."""
        return replace(self, _mean=self._mean_of(tokens, self._weight(tokens))), memory

    @torch.no_grad()
    def __call__(self, tokens: Tokens) -> tuple[torch.Tensor, Metrics]:
        """Weights [S], and what they do, averaged as the policy loss is.

        ``weight`` and ``weight_square`` are means; their ``weight²/weight_square`` is the effective share of the sample
        (see ``effective_size``).
        """
        weight = self._weight(tokens)
        if self.normalize:
            mean = self._mean_of(tokens, weight) if self._mean is None else self._mean
            weight = weight / (mean or 1.0)
        return weight, _diagnostics(tokens, _log_rho(tokens), weight)

    def _weight(self, tokens: Tokens) -> torch.Tensor:
        log_rho = _log_rho(tokens)
        weight = torch.ones_like(log_rho)
        for rule in self.rules:
            weight = weight * rule(log_rho, tokens)
        return weight

    def _mean_of(self, tokens: Tokens, weight: torch.Tensor) -> float:
        return float(weight[tokens.counted].mean()) if tokens.counted.any() else 0.0


def effective_size(weight: torch.Tensor) -> float:
    """``(Σw)²/Σw²``: how many equally weighted samples [M] are worth as much; 0 when all weights are 0."""
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares else 0.0


def _log_rho(tokens: Tokens) -> torch.Tensor:
    old = tokens.logprob if tokens.proximal_logprob is None else tokens.proximal_logprob
    return (old.detach() - tokens.sampled_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def _diagnostics(tokens: Tokens, log_rho: torch.Tensor, weight: torch.Tensor) -> Metrics:
    share = tokens.policy_weight / tokens.total
    rho = log_rho.exp()
    return {
        "offpolicy/weight": float((share * weight).sum()),
        "offpolicy/weight_square": float((share * weight**2).sum()),
        "offpolicy/changed_share": float((share * (weight != 1)).sum()),
        "offpolicy/dropped_share": float((share * (weight == 0)).sum()),
        "offpolicy/kl_nats": float((share * (torch.expm1(log_rho) - log_rho)).sum()),
        "offpolicy/chi2": float((share * (rho**2 - 1)).sum()),
    }


def _check_band(who: str, low: float, high: float) -> None:
    if not 0 <= low <= 1 <= high:
        raise ConfigError(f"{who} needs 0 ≤ low ≤ 1 ≤ high, found low={low}, high={high}")


def _check_reduce(unit: Unit, reduce: Reduce) -> None:
    if unit == "token" and reduce == "mean":
        raise ConfigError("the mean over a single token has no effect; leave reduce out or choose another unit")
