"""Objectives that imitate whole trajectories, and one that learns nothing from them.

Their credit says how much a turn is imitated (``credit.imitation_weights``). Turns with credit below 0 are left out,
not made less likely. log π is over the whole vocabulary at the sampler's temperature, because the imitated text may
come from another policy, another temperature or a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from turngate.errors import ConfigError
from turngate.parts import when_used
from turngate.trainer.loss.base import Gain, Objective
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Needs, Tokens, Unit, owners, sum_over

if TYPE_CHECKING:
    import torch

    from turngate.config import Config
else:
    torch = when_used("torch")


class WeighedImitation(Objective):
    """Weighted imitation: raises the log-probability of each action, times its credit where that is above 0.

    ``max(A, 0)·log π``. With the credit "imitate" and the filter "successes" it is filtered behaviour cloning, with
    "awr" advantage-weighted regression, with "a_lol" A-LoL without a reference ("ref_free"), with "rloo" self-imitation
    of episodes that were better than their siblings. It needs no log-probabilities of the sampler, so it learns from
    episodes that have none; a correction may add the ratio.
    """

    type: Literal["imitation"] = "imitation"
    uses_ratio: ClassVar[bool] = False

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens with credit below 0."""
        advantage = tokens.advantage
        return Gain(value=advantage.clamp(min=0) * tokens.whole_logprob, limited=advantage < 0)


class ALol(Objective):
    """A-LoL: weighted imitation with the ratio of the whole episode, in bounds, so that it follows the policy.

    Advantage leftover lunch (https://arxiv.org/abs/2305.14718): ``max(A, 0)·sg(clip(ρ, floor, cap))·log π`` with ``ρ =
    exp(Σ_j log π − log π_ref)`` over the unit's tokens. Use the credit "a_lol". A = .3, ρ = 1.5 and log π = −2: −.9; at
    ρ = 3: −1.14. Between the bounds, and for episodes that π_ref played, the expected gradient is that of the expected
    max(A, 0). The paper's variants: ``unit = "token"`` ("seq"); objective "imitation" ("ref_free"); a penalty "kl".
    Known weakness: over long episodes the product leaves the bounds at once, and is then a constant.
    """

    type: Literal["a_lol"] = "a_lol"
    unit: Unit = "sequence"
    """Tokens whose ratios are multiplied: those of the whole episode, of a turn, or each alone."""
    against: Literal["reference", "sampler"] = "reference"
    """Log-probabilities in the denominator. reference: those of the model that training began from, as published;
    sampler: those of the policy that played the episode, which have to be recorded."""
    floor: float = Field(0.1, ge=0, le=1)
    """Least ratio; above 0, tokens that have become very unlikely are still imitated."""
    cap: float = Field(1.9, ge=1)
    """Largest ratio."""

    @property
    def uses_ratio(self) -> bool:  # type: ignore[override]
        """True for the ratio to the sampler, which is the one that corrections weigh by."""
        return self.against == "sampler"

    @property
    def needs(self) -> Needs:
        """The reference, unless the sampler is the denominator."""
        return Needs(reference=self.against == "reference")

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are tokens whose ratio was cut, which keep a gradient, and those with credit below 0."""
        if self.against == "reference":
            apart = tokens.whole_logprob.detach() - tokens.required("reference_logprob", "a_lol")
        else:
            apart = tokens.logprob.detach() - tokens.old_logprob
        total = sum_over(apart, owners(tokens, self.unit), tokens.counted).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        ratio, advantage = total.exp(), tokens.advantage
        weight = ratio.clamp(self.floor, self.cap)
        value = advantage.clamp(min=0) * weight * tokens.whole_logprob
        return Gain(value=value, limited=(weight != ratio) | (advantage < 0))


class NoObjective(Objective):
    """No policy loss: the run learns by its auxiliary losses alone, for instance from pairs.

    Episodes are played, scored and recorded as ever, and none of them reaches credit. Each step makes one update with
    the rows of its auxiliary losses, and none where there are no rows.
    """

    type: Literal["none"] = "none"
    uses_ratio: ClassVar[bool] = False

    def check_config(self, config: Config) -> None:
        """Raise ConfigError for a run that would learn nothing, and for settings that only credit would read."""
        if not config.auxiliary:
            raise ConfigError(
                "loss.objective = 'none' learns nothing without an auxiliary loss; add one, for instance "
                '{type = "pairs", winners = "all"}'
            )
        plain = type(config).model_fields["credit"].get_default(call_default_factory=True)
        useless = {
            "credit": config.credit != plain,
            "train.filters": config.train.filters,
            "train.minibatches": config.train.minibatches > 1,
        }
        if name := next((name for name, is_set in useless.items() if is_set), None):
            raise ConfigError(
                f"{name} has no effect with loss.objective = 'none': no episode reaches credit; leave it out"
            )

    def __call__(self, tokens: Tokens) -> Gain:
        """[S], all 0."""
        nothing = torch.zeros_like(tokens.logprob)
        return Gain(value=nothing, limited=nothing != 0)
