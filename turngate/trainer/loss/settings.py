"""The settings of the loss, as data: a union on ``type``, with everything that can be wrong found before any work.

``turngate.build`` makes a ``PolicyLoss`` of them; ``turngate.config`` holds them as its section ``loss``. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, Union

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Settings(BaseModel):
    """Base of every section of the loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


# --- corrections ------------------------------------------------------------------------------------------------------


class _Ratio(Settings):
    unit: Literal["token", "turn", "sequence"] = "token"
    """Whose ratio it is."""
    reduce: Literal["product", "mean"] = "product"
    """How the tokens of a unit make its ratio: product, or geometric mean."""

    @model_validator(mode="after")
    def _reduces(self) -> Self:
        if self.unit == "token" and self.reduce == "mean":
            raise ValueError("reduce = 'mean' over a single token has no effect; choose another unit")
        return self


class _Unit(Settings):
    unit: Literal["turn", "sequence"] = "sequence"
    """What is judged as one."""


class TisRule(_Ratio):
    """Truncated importance sampling."""

    type: Literal["tis"] = "tis"
    cap: float = Field(2.0, ge=1)
    """Largest weight."""


class MisRule(_Ratio):
    """Masked importance sampling; per token with high = 5 it is IcePop."""

    type: Literal["mis"] = "mis"
    low: float = Field(0.5, ge=0, le=1)
    """Smaller ratios are dropped."""
    high: float = Field(2.0, ge=1)
    """Larger ratios are dropped."""


class GeometricRule(_Unit):
    """Drop units whose geometric mean ratio lies outside a band."""

    type: Literal["geometric"] = "geometric"
    low: float = Field(0.999, ge=0, le=1)
    """Lower end of the band."""
    high: float = Field(1.001, ge=1)
    """Upper end of the band."""


class DivergenceRule(_Unit):
    """Drop units whose mean divergence from the sampler is too large."""

    type: Literal["divergence"] = "divergence"
    threshold: float = Field(0.01, gt=0)
    """Largest mean of ratio − 1 − log ratio, in nats."""


class VetoRule(_Unit):
    """Drop units with a token that the policy finds far less likely than its sampler did."""

    type: Literal["veto"] = "veto"
    floor: float = Field(1e-4, gt=0, lt=1)
    """Smallest ratio."""


class DriftRule(_Unit):
    """Drop bad tokens of units that the policy has already left."""

    type: Literal["negative_drift"] = "negative_drift"
    delta: float = Field(0.5, gt=0)
    """Largest mean of log sampler − log policy, in nats."""


CorrectionRule: TypeAlias = Annotated[
    TisRule | MisRule | GeometricRule | DivergenceRule | VetoRule | DriftRule, Field(discriminator="type")
]


# --- penalties --------------------------------------------------------------------------------------------------------


class KlSection(Settings):
    """A penalty on leaving the model that reinforcement learning began from."""

    coef: float = Field(1e-3, gt=0)
    """Its weight; with a target, the first one."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Whose value is added and reported."""
    gradient: Literal["exact", "estimator"] = "exact"
    """exact: of KL(policy ‖ reference); estimator: differentiate the estimator itself, k3 then pulls the other way."""
    target: float | None = Field(None, gt=0)
    """Divergence, in nats per token, that the weight adapts towards."""
    horizon: int | None = Field(None, ge=1)
    """Episodes over which it adapts; needed with a target."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if (self.target is None) != (self.horizon is None):
            raise ValueError("an adaptive weight needs both target and horizon")
        if (self.estimator, self.gradient) == ("k1", "estimator"):
            raise ValueError("k1 differentiated has gradient 0 in expectation; use gradient = 'exact'")
        return self


class SirenSection(Settings):
    """A pull of the entropy at uncertain tokens towards an anchor."""

    coef: float = Field(0.005, gt=0)
    """Its weight."""
    nucleus: float = Field(0.8, gt=0, le=1)
    """Probability of the likeliest tokens whose entropy counts."""
    peak: float = Field(0.8, ge=0, lt=1)
    """Only tokens above this quantile of their trajectory count."""
    anchor: float | None = None
    """In nats; leave out for that of the first batch."""


# --- objectives -------------------------------------------------------------------------------------------------------


class LossBase(Settings):
    """What every loss has."""

    aggregate: Literal["token", "sequence", "turn", "sum"] | Annotated[int, Field(ge=1)] = "token"
    """Averaged are tokens, sequences, or turns inside sequences; sum: sums per sequence; a number: these / number."""
    entropy_bonus: float = 0.0
    """Added per token."""
    decoupled: bool = False
    """Take ratios against a snapshot from before the first update instead of the sampler."""
    correction: tuple[CorrectionRule, ...] = ()
    """Weights and rejections for the difference between sampler and policy; they multiply."""
    normalize: bool = False
    """Divide these weights by their mean."""
    kl: KlSection | None = None
    """Penalty on the distance to a reference model."""
    siren: SirenSection | None = None
    """Entropy control by an anchor."""
    uses_ratio: ClassVar[bool] = True

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        weighs = any(rule.type in ("tis", "mis") for rule in self.correction)
        if weighs and self.uses_ratio and not self.decoupled:
            raise ValueError("tis and mis would count the ratio twice; add decoupled = true, or only reject")
        if self.normalize and not self.correction:
            raise ValueError("normalize without a correction has no effect")
        if self.decoupled and not self.uses_ratio and not self.correction:
            raise ValueError("decoupled without a correction has no effect on a loss without ratio")
        return self


class _Clip(LossBase):
    clip_low: float = Field(0.2, ge=0, le=1)
    """The ratio is clipped below 1 − clip_low."""
    clip_high: float = Field(0.28, ge=0)
    """The ratio is clipped above 1 + clip_high."""
    dual_clip: float = Field(3.0, gt=1)
    """Bound of the loss where the advantage is negative."""


class ClippedSection(_Clip):
    """The clipped surrogate of PPO."""

    type: Literal["clipped"] = "clipped"


class GspoSection(LossBase):
    """One clipped ratio per trajectory or per turn."""

    type: Literal["gspo"] = "gspo"
    unit: Literal["turn", "sequence"] = "sequence"
    """Whose ratio it is."""
    clip_low: float = Field(3e-4, ge=0, le=1)
    """The ratio is clipped below 1 − clip_low."""
    clip_high: float = Field(4e-4, ge=0)
    """The ratio is clipped above 1 + clip_high."""


class CispoSection(LossBase):
    """Clipped importance weights; every token keeps its gradient."""

    type: Literal["cispo"] = "cispo"
    floor: float = Field(0.0, ge=0, le=1)
    """Smallest weight."""
    cap: float = Field(5.0, ge=1)
    """Largest weight, itself: 1.28 is a clip of 0.28."""


class GmpoSection(LossBase):
    """Geometric mean of the token ratios of a trajectory or a turn."""

    type: Literal["gmpo"] = "gmpo"
    unit: Literal["turn", "sequence"] = "sequence"
    """Whose mean it is."""
    clip_low: float = Field(0.4, gt=0)
    """The logarithm of a token's ratio is cut below −clip_low."""
    clip_high: float = Field(0.4, gt=0)
    """The logarithm of a token's ratio is cut above clip_high."""


class SapoSection(LossBase):
    """A smooth gate instead of a clip."""

    type: Literal["sapo"] = "sapo"
    tau_positive: float = Field(1.0, gt=0)
    """How sharply good tokens fade."""
    tau_negative: float = Field(1.05, gt=0)
    """How sharply bad tokens fade."""


class ReinforceSection(LossBase):
    """The plain policy gradient."""

    type: Literal["reinforce"] = "reinforce"
    uses_ratio: ClassVar[bool] = False


class KlCovSection(LossBase):
    """The unclipped ratio, held back at the tokens that would cost most entropy."""

    type: Literal["kl_cov"] = "kl_cov"
    share: float = Field(0.002, gt=0, le=1)
    """Share of the tokens that is held back."""
    coef: float = Field(1.0, gt=0)
    """How hard."""


class ClipCovSection(LossBase):
    """The clipped surrogate without gradient at a few tokens that would cost much entropy."""

    type: Literal["clip_cov"] = "clip_cov"
    clip_low: float = Field(0.2, ge=0, le=1)
    """The ratio is clipped below 1 − clip_low."""
    clip_high: float = Field(0.2, ge=0)
    """The ratio is clipped above 1 + clip_high."""
    share: float = Field(2e-4, gt=0, le=1)
    """Share of the tokens that is drawn."""
    low: float = 1.0
    """Smallest covariance of a token that may be drawn."""
    high: float = 5.0
    """Largest covariance of a token that may be drawn."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self


class SimKoSection(_Clip):
    """The clipped surrogate, with credit shared at uncertain tokens."""

    type: Literal["simko"] = "simko"
    alpha: float = Field(0.01, ge=0, le=1)
    """Share of a good token's gradient that goes to the likeliest tokens."""
    candidates: int = Field(3, ge=1)
    """How many these are."""
    quantile: float = Field(0.8, ge=0, lt=1)
    """Uncertain are tokens with entropy above this quantile of their trajectory."""
    boost: float = Field(1.1, ge=1)
    """Factor of the advantage of a bad token that is the likeliest."""

    @model_validator(mode="after")
    def _differs(self) -> Self:
        if self.alpha == 0 and self.boost == 1:
            raise ValueError("alpha = 0 and boost = 1 do nothing beyond type = 'clipped'")
        return self


def _clipped_by_default(data: Any) -> Any:
    return {"type": "clipped", **data} if isinstance(data, Mapping) and "type" not in data else data


LossSection: TypeAlias = Annotated[
    Union[  # noqa: UP007 (a list of nine reads better)
        ClippedSection,
        GspoSection,
        CispoSection,
        GmpoSection,
        SapoSection,
        ReinforceSection,
        KlCovSection,
        ClipCovSection,
        SimKoSection,
    ],
    Field(discriminator="type"),
    BeforeValidator(_clipped_by_default),
]
