"""The settings of what credit rules read beyond rewards, as data: a critic, an implicit reward model, and signals.

``turngate.run.credit`` makes signals of them; ``turngate.config`` holds them as its sections ``value``,
``reward_model`` and ``signals``. No torch.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turngate.examine.recorded import names_something
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.learner import Critic

MODEL_COLUMNS = frozenset(
    {"value_N", "value_S", "bootstrap_B", "logratio_N", "logratio_S", "gain_N", "turn_S", "surprisal_S", "sharing_S"}
)
"""Columns that training can always measure, for rules that read them."""

CRITIC_COLUMNS = frozenset({"value_N", "value_S", "bootstrap_B"})
"""Those among them that are measured only where a critic is trained."""

ENTROPY_COLUMNS = frozenset({"entropy_N", "entropy_S"})
"""Exact entropies, which rules take in place of surprisal where they are measured."""


BY_COMPONENT = frozenset({"gdpo", "hero"})
"""Rules that read what single components were paid."""


class SignalSettings(BaseModel):
    """Base of these sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ValueSection(SignalSettings):
    """The critic of a credit rule that reads values, such as turn_gae; leave it out for the defaults.

    A critic has to see what it judges: with a filter that drops groups of equal siblings it learns the worth of the
    others only. So a rule with a critic has no filter, unless train.filters says otherwise.

    ``bootstrap`` suits limits that are no part of the task. Where truncated work is verified and paid, it comes on top
    of that payment, and an agent that stalls is credited with what it might still have done.
    """

    trunk: Literal["detached", "shared"] = "detached"
    """shared: the critic's loss also trains the model below its head; detached: the head alone."""
    lr_factor: float = Field(3.0, gt=0)
    """Learning rate of the critic's head, as a multiple of learner.lr."""
    epochs: int = Field(10, ge=1)
    """How often the head learns from the states of one update; raise it for a critic that lags behind."""
    coef: float = Field(0.5, gt=0)
    """Weight of the critic's loss in a shared trunk."""
    clip: float | None = Field(None, gt=0)
    """Clip the critic's loss where a value moves farther than this from the one before the update; leave it out for
    none."""
    warmup: int = Field(0, ge=0)
    """Number of first updates in which only the critic learns and the policy stays as it is."""
    lam: float = Field(1.0, ge=0, le=1)
    """λ of the returns that the critic learns; 1 = what was really paid, whatever the critic believes."""
    bootstrap: bool = True
    """Whether the critic's value stands for what a truncated episode might still have been paid; else that counts as
    0."""

    def critic(self) -> Critic:
        """How the learner learns values."""
        settings = self.model_dump(exclude={"trunk", "lam", "bootstrap"})
        return Critic(shared=self.trunk == "shared", **settings)

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.trunk == "detached" and self.coef != type(self).model_fields["coef"].default:
            raise ValueError(
                "coef has no effect on a detached trunk: AdamW divides by the scale of the head's gradient"
            )
        return self


class RewardModelSection(SignalSettings):
    """The implicit reward model of a credit rule that reads log-ratios, such as prime; leave it out for the
    defaults."""

    model: Literal["trained", "policy"] = "trained"
    """trained: a model of its own that learns from outcomes; policy: the policy against the model it began from."""
    lr_factor: float = Field(2.0, gt=0)
    """Learning rate of the reward model, as a multiple of learner.lr."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.model == "policy" and self.lr_factor != type(self).model_fields["lr_factor"].default:
            raise ValueError("lr_factor has no effect: the policy is the reward model, and nothing else is trained")
        return self


class SimilarSection(SignalSettings):
    """When two observations count as one state."""

    threshold: float = Field(0.95, gt=0, le=1)
    """Least share of words or characters that two texts have in common to count as one state; 1 = equal texts."""
    unit: Literal["words", "characters"] = "words"
    """What texts are compared by; characters are finer and take much longer."""


class SignalsSection(SignalSettings):
    """How what a credit rule reads beside payments is measured; nothing is measured that no rule reads."""

    entropy: Literal["sampled", "exact"] = "sampled"
    """sampled: entropy is estimated from the sampled tokens; exact: it is computed, by one more forward pass."""
    answer: str | None = None
    """The right answer as the assistant would write it; {name} is an entry of the task's private data. Leave out for
    the oracle's actions."""
    log_gain: bool = False
    """Information gain as a difference of log-probabilities instead of probabilities."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """Columns from the environment's evidence about turns, for instance {format_N = "parsed"}."""

    similar: SimilarSection | None = None
    """Fill similar_N, for rules whose anchors are states that are nearly alike (gigpo with anchors = "similar")."""
    kl_in_reward: float | None = Field(None, gt=0)
    """What each turn pays for one nat of log-ratio to the model that training began from; raise it to stay closer to
    that model. Leave it out for nothing."""

    @field_validator("answer")
    @classmethod
    def _differs(cls, answer: str | None) -> str | None:
        return None if answer is None else names_something(answer)

    @field_validator("evidence")
    @classmethod
    def _per_turn(cls, evidence: dict[str, str]) -> dict[str, str]:
        for column in evidence:
            if not column.endswith("_N"):
                raise ValueError(f"evidence about turns fills columns that end in _N, found '{column}'")
        return evidence

    @property
    def offered(self) -> frozenset[str]:
        """The columns that a run with these settings can measure."""
        exact = ENTROPY_COLUMNS if self.entropy == "exact" else frozenset()
        similar = frozenset({"similar_N"} if self.similar else ())
        return MODEL_COLUMNS | exact | similar | frozenset(self.evidence)

    def check_effect(self, reads: frozenset[str], rule: CreditRule) -> None:
        """Raise ValueError for a setting that ``rule``, which reads the columns ``reads``, does not need."""
        name = rule.type
        unread = sorted(set(self.evidence) - reads)
        if unread:
            raise ValueError(f"signals.evidence {unread[0]} has no effect: credit '{name}' does not read it")
        if self.entropy == "exact" and not reads & ENTROPY_COLUMNS:
            raise ValueError(f"signals.entropy has no effect: credit '{name}' reads no entropy")
        if self.kl_in_reward is not None and (name in BY_COMPONENT or getattr(rule, "outcome", "") == "earned"):
            raise ValueError(
                f"signals.kl_in_reward has no effect: credit '{name}' reads single components, or the outcome as "
                "earned, which do not hold it"
            )
        if self.similar is not None and "similar_N" not in reads:
            raise ValueError(f"signals.similar has no effect: credit '{name}' compares no similar states")
        if (self.answer is not None or self.log_gain) and "gain_N" not in reads:
            raise ValueError(f"signals.answer and signals.log_gain have no effect: credit '{name}' reads no gain")
