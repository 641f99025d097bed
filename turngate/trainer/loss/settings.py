"""The section ``loss`` of a config: an objective, corrections, penalties, and how tokens are averaged. No torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngate.errors import ConfigError
from turngate.trainer.loss.base import Correction, Objective, Penalty
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss


class LossSettings(BaseModel):
    """What a step descends on."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    objective: Objective = Clipped()
    """What is made of credit and ratio, token by token."""
    aggregate: Literal["token", "sequence", "turn", "sum"] | Annotated[int, Field(ge=1)] = "token"
    """What the loss is averaged over: all tokens; sequences, each the mean of its tokens; sequences, each the mean of
    its turns. "sum": sequences, each the sum of its tokens; a number: these sums divided by it."""
    decoupled: bool = False
    """Take the objective's ratio against a snapshot from before the first update of a step instead of the sampler; for
    several minibatches, or samples of older weights."""
    correction: tuple[Correction, ...] = ()
    """Weights and rejections for the difference between the sampler and the policy; they multiply."""
    normalize: bool = False
    """Divide the weights of the corrections by their mean over the batch."""
    penalties: tuple[Penalty, ...] = ()
    """Additions to the loss: an entropy bonus, the distance to a reference model …"""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        try:
            _ = self.needs_reference
        except ConfigError as error:  # not a ValueError: pydantic would lose the key that it belongs to
            raise ValueError(str(error)) from None
        return self

    @property
    def needs_reference(self) -> bool:
        """Whether something compares the policy with the model that training began from."""
        return self.policy_loss(seed=0).needs.reference

    def policy_loss(self, seed: int) -> PolicyLoss:
        """The loss itself; whatever it draws derives from ``seed``."""
        return PolicyLoss(
            objective=self.objective,
            correction=self.correction,
            normalize=self.normalize,
            penalties=self.penalties,
            decoupled=self.decoupled,
            seed=seed,
        )
