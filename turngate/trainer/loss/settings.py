"""The section ``loss`` of a config: an objective, corrections, penalties, and how tokens are averaged. No torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngate.errors import ConfigError
from turngate.trainer.loss.base import Correction, Objective, Penalty, Shaping
from turngate.trainer.loss.imitation import NoObjective
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss
from turngate.trainer.loss.shaping import Shaped


class LossSettings(BaseModel):
    """The loss that training minimises: an objective, corrections and penalties."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    objective: Objective = Clipped()
    """How credit and importance ratio become the loss of a token: which clipping, if any."""
    aggregate: Literal["token", "sequence", "turn", "sum"] | Annotated[int, Field(ge=1)] = "token"
    """How the losses of tokens are averaged. token: mean over all tokens, so that long episodes weigh more; sequence:
    every episode weighs the same; turn: so does every turn of an episode; sum: mean over episodes of the sum over their
    tokens; a number: these sums divided by it, for instance the token budget of an episode."""
    decoupled: bool = False
    """Whether the importance ratio is taken to the weights before the first update of the step instead of to the
    sampler's; for several minibatches per step, or episodes that older weights sampled."""
    correction: tuple[Correction, ...] = ()
    """Weights or rejections for tokens on which sampler and policy differ; several are multiplied."""
    normalize: bool = False
    """Whether the weights of the corrections are divided by their mean over the batch, so that corrections do not make
    updates smaller."""
    penalties: tuple[Penalty, ...] = ()
    """Terms added to the loss, such as an entropy bonus or the divergence from a reference model."""

    guided: Shaping = Shaped()
    """How tokens are learned from that were written under a hint which the guide strips for training: their ratio is
    between two contexts, so it is not 1 before the first update."""
    experts: Shaping | None = None
    """How the turns that an expert wrote are learned from, in episodes of a guide that puts an expert among the
    siblings; left out: they count in the baseline of their siblings, but nothing is learned from their tokens."""

    replayed: Shaping | None = None
    """How the tokens of replayed episodes are learned from, for instance "shaped", which weighs them by ρ/(ρ + 0.1) and
    clips nothing; left out: by objective and corrections, like fresh ones, with the ratio to the policy that wrote
    them."""

    @model_validator(mode="after")
    def _learns_nothing(self) -> Self:
        if self.is_off:
            for name, field in type(self).model_fields.items():
                if name != "objective" and getattr(self, name) != field.get_default(call_default_factory=True):
                    raise ValueError(
                        f"{name} has no effect with objective = 'none', which learns nothing from the episodes; leave "
                        "one of them out"
                    )
        return self

    @property
    def is_off(self) -> bool:
        """Whether there is no policy loss: the run learns by auxiliary losses alone."""
        return isinstance(self.objective, NoObjective)

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        try:
            _ = self.needs_reference
        except ConfigError as error:  # not a ValueError: pydantic would lose the key that it belongs to
            raise ValueError(str(error)) from None
        return self

    def check_effect(self, *, strips: bool, experts: bool, per_token: bool, replays: bool) -> None:
        """Raise ValueError for shapings without effect: where no guide ``strips`` hints or has ``experts`` act, where
        nothing is replayed, and for experts under a credit rule ``per_token``, which has a number for the policy's own
        tokens only."""
        if self.replayed is not None and not replays:
            raise ValueError(
                "loss.replayed has no effect: steps learn from fresh episodes alone; set episodes, for instance "
                '{type = "mixed"}, or leave it out'
            )
        if self.guided != type(self).model_fields["guided"].default and not strips:
            raise ValueError(
                "loss.guided has no effect: no guide strips hints for training; set guide, for instance "
                '{type = "guide"}, or leave it out'
            )
        if self.experts is not None and not experts:
            raise ValueError(
                'loss.experts has no effect: no guide has an expert act; set guide, for instance {type = "luffy"}, or '
                "leave it out"
            )
        if self.experts is not None and per_token:
            raise ValueError(
                "loss.experts has no effect: the credit rule gives a number to each token of the policy, and none to "
                "an expert's; use a rule whose unit is the turn, or leave it out"
            )

    @property
    def needs_reference(self) -> bool:
        """Whether the loss compares the policy with the model that training began from."""
        return self.policy_loss(seed=0).needs.reference

    @property
    def needs_sampler(self) -> bool:
        """Whether the loss compares with the sampler's log-probabilities of the tokens."""
        return self.policy_loss(seed=0).reads_sampler

    @property
    def needs_thoughts(self) -> bool:
        """Whether the loss tells the thought before an action from the action."""
        return self.policy_loss(seed=0).needs.thoughts

    def policy_loss(self, seed: int) -> PolicyLoss:
        """The loss itself; what it draws at random derives from ``seed``."""
        return PolicyLoss(
            objective=self.objective,
            correction=self.correction,
            normalize=self.normalize,
            penalties=self.penalties,
            decoupled=self.decoupled,
            seed=seed,
            guided=self.guided,
            experts=self.experts,
            replayed=self.replayed,
        )
