"""The config sections for what credit rules read beyond rewards: a critic, a reward model and other signals.

They are the sections ``value``, ``reward_model`` and ``signals`` of ``turngate.config.run_config``;
``turngate.run.assembly.credit`` makes signals of them. Imports no torch.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from turngate.judges.examiners.recorded import names_something
from turngate.trainer.credit.rule import CreditRule
from turngate.trainer.learner import Critic

MODEL_COLUMNS = frozenset(
    {"value_N", "value_S", "bootstrap_B", "logratio_N", "logratio_S", "gain_N", "turn_S", "surprisal_S", "sharing_S"}
)
"""Columns that every training run can measure, if its rule reads them."""

CRITIC_COLUMNS = frozenset({"value_N", "value_S", "bootstrap_B"})
"""Those of them that need a critic."""

RECORDED_COLUMNS = frozenset({"turn_S", "surprisal_S", "sharing_S"})
"""Those of them that the record of the episodes holds, so that they can be had again without a model."""

ENTROPY_COLUMNS = frozenset({"entropy_N", "entropy_S"})
"""Exact entropies; where they are measured, rules read them instead of surprisal, which estimates them."""


BY_COMPONENT = frozenset({"gdpo", "hero"})
"""Rules that read what single reward components were paid."""


class SignalSettings(BaseModel):
    """Base of these sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ValueSection(SignalSettings):
    """The critic of a credit rule that reads values, such as turn_gae; leave it out for the defaults.

    A critic has to be trained on all the states that it values. A filter that drops groups of equal siblings would hide
    their states from it, so a rule with a critic has no filter unless train.filters names one.

    ``bootstrap`` suits limits (of turns, tokens or time) that are not part of the task itself. Where truncated work is
    verified and paid, set it to false: the bootstrapped value would come on top of that payment, so an agent that
    stalls would be credited with what it might still have done.
    """

    trunk: Literal["detached", "shared"] = "detached"
    """detached: the critic's loss trains only its own head; shared: it also trains the model below, the policy."""
    lr_factor: float = Field(3.0, gt=0)
    """Learning rate of the critic's head, as a multiple of learner.lr; raise it for a critic that lags behind."""
    epochs: int = Field(10, ge=1)
    """How many times the head goes over the states of one update; raise it for a critic that lags behind."""
    coef: float = Field(0.5, gt=0)
    """Weight of the critic's loss beside the policy's; for trunk = "shared" only."""
    clip: float | None = Field(None, gt=0)
    """Largest change of a value in one update that the critic's loss rewards, in units of reward (PPO's value
    clipping); leave it out for no clipping."""
    warmup: int = Field(0, ge=0)
    """Number of updates at the start in which only the critic learns and the policy stays as it is."""
    lam: float = Field(1.0, ge=0, le=1)
    """λ of the returns that the critic learns: at 1 they are the payments themselves; the lower, the more they rest on
    the critic's own values, with less variance and more bias."""
    bootstrap: bool = True
    """Whether a truncated episode is credited with the critic's value of the state in which it stopped, for what it
    might still have been paid; false counts that as 0."""

    def critic(self) -> Critic:
        """How the learner learns values."""
        settings = self.model_dump(exclude={"trunk", "lam", "bootstrap"})
        return Critic(shared=self.trunk == "shared", **settings)

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.trunk == "detached" and self.coef != type(self).model_fields["coef"].default:
            raise ValueError(
                "coef has no effect with trunk = 'detached': AdamW divides by the scale of the head's gradient"
            )
        return self


class RewardModelSection(SignalSettings):
    """The implicit reward model of a credit rule that reads log-ratios, such as prime; leave it out for the
    defaults."""

    model: str = Field("trained", min_length=1)
    """trained: a second model, which learns from outcomes; policy: the policy itself, compared with the model that
    training began from. Any other value is a folder or a name on the Hugging Face hub (or, in a stage, stage:NAME): a
    scorer that was fitted before and stays as it is, compared with the same."""
    lr_factor: float = Field(2.0, gt=0)
    """Learning rate of the reward model, as a multiple of learner.lr."""

    @property
    def fitted(self) -> str | None:
        """The scorer that was fitted before; None where there is none."""
        return None if self.model in ("trained", "policy") else self.model

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.model != "trained" and self.lr_factor != type(self).model_fields["lr_factor"].default:
            raise ValueError(
                f"lr_factor has no effect with model = '{self.model}': no reward model is trained; leave it out"
            )
        return self


class SimilarSection(SignalSettings):
    """When two observations count as one state."""

    threshold: float = Field(0.95, gt=0, le=1)
    """Share of words or characters that two texts must have in common, at least, to count as one state; 1 = equal
    texts."""
    unit: Literal["words", "characters"] = "words"
    """What the share is counted in; characters see smaller differences and take much longer."""


class SignalsSection(SignalSettings):
    """How the columns that a credit rule reads beside payments are measured; only columns that it reads are."""

    entropy: Literal["sampled", "exact"] = "sampled"
    """sampled: estimate entropy from the log-probabilities of the sampled tokens; exact: compute it, by one more
    forward pass."""
    answer: str | None = None
    """For rules that read gain_N, such as igpo: the right answer as the assistant would write it, where {name} stands
    for an entry of the task's private data. Leave it out to take the actions of the environment's oracle."""
    log_gain: bool = False
    """Whether information gain is a difference of log-probabilities; false: of probabilities."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """Columns to fill from evidence about turns, by column, for instance {format_N = "parsed"}: format_N then holds
    what the environment recorded as parsed."""

    similar: SimilarSection | None = None
    """When two observations count as one state, for gigpo with anchors = "similar"; leave it out for other rules."""
    kl_in_reward: float | None = Field(None, gt=0)
    """What a turn is charged, in units of reward, for each nat of its log-ratio to the model that training began from;
    raise it to stay closer to that model. Leave it out to charge nothing."""

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

    @property
    def recorded(self) -> frozenset[str]:
        """The columns among ``offered`` that recorded episodes hold, without any model."""
        return RECORDED_COLUMNS | frozenset({"similar_N"} if self.similar else ()) | frozenset(self.evidence)

    def check_effect(self, reads: frozenset[str], rule: CreditRule) -> None:
        """Raise ValueError for a setting without effect on ``rule``, which reads the columns ``reads``."""
        name = rule.type
        unread = sorted(set(self.evidence) - reads)
        if unread:
            raise ValueError(f"signals.evidence {unread[0]} has no effect: credit '{name}' does not read it")
        if self.entropy == "exact" and not reads & ENTROPY_COLUMNS:
            raise ValueError(f"signals.entropy has no effect: credit '{name}' reads no entropy")
        if self.kl_in_reward is not None and (name in BY_COMPONENT or getattr(rule, "outcome", "") == "earned"):
            raise ValueError(
                f"signals.kl_in_reward has no effect: credit '{name}' reads single components or the outcome as "
                "earned, from which the KL is not subtracted"
            )
        if self.similar is not None and "similar_N" not in reads:
            raise ValueError(f"signals.similar has no effect: credit '{name}' compares no similar states")
        if (self.answer is not None or self.log_gain) and "gain_N" not in reads:
            raise ValueError(f"signals.answer and signals.log_gain have no effect: credit '{name}' reads no gain")
