"""The section ``loss`` of a config: an objective, corrections, penalties, and how tokens are averaged. No torch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turngate.errors import ConfigError
from turngate.trainer.loss.base import Correction, Objective, Penalty
from turngate.trainer.loss.objectives import Clipped
from turngate.trainer.loss.policy_loss import PolicyLoss


class LossSettings(BaseModel):
    """The loss that training minimises: an objective, corrections and penalties."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    objective: Objective = Clipped()
    """How credit and importance ratio become the loss of a token: which clipping, if any."""
    aggregate: Literal["token", "sequence", "turn", "sum"] | Annotated[int, Field(ge=1)] = "token"
    """How the losses of tokens become one. token: mean over all tokens; sequence: mean over episodes of the mean over
    their tokens; turn: the same over the means of their turns; sum: mean over episodes of their sums; a number: these
    sums divided by it."""
    decoupled: bool = False
    """Take the importance ratio to the weights before the first update of a step instead of to the sampler's; for
    several minibatches, or episodes sampled by older weights."""
    correction: tuple[Correction, ...] = ()
    """Weights, or rejections, of tokens for which sampler and policy differ; of several, the weights are multiplied."""
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
