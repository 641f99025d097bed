"""The critic's head, which computes the value of a state from the model's last hidden state, and its loss.

``value_L[l]`` is the value of the state after token ``l`` of a batch. So the value of a state in which the agent is to
act is at the last token before it acts, and the value of the state in which an episode stopped is at its last token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueTargets:
    """Hidden states, [M, width], and their targets, weights and old values: [M] each (see ``value_loss``)."""

    states: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor
    old: torch.Tensor

    def loss(self, head: ValueHead, *, clip: float | None) -> torch.Tensor:
        """The head's loss on these states."""
        return value_loss(head(self.states), self.target, self.weight, old=self.old, clip=clip)


class ValueHead(torch.nn.Module):
    """A linear head that gives one number per hidden state, in float32; 0 for every state until it is trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(width))
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[M, width] → [M]."""
        return hidden.float() @ self.weight + self.bias


def value_loss(
    value: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor,
    *,
    old: torch.Tensor | None = None,
    clip: float | None = None,
) -> torch.Tensor:
    """``Σ_m weight_m · ½ (value_m − target_m)²``; with ``clip`` the clipped form (see ``Critic``).

    All are [M]; ``old`` is the value before the update, needed with ``clip`` only. Without any
    state the loss is 0.
    """
    error = (value - target).square()
    if clip is not None and old is not None:
        near = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (near - target).square())
    return 0.5 * (weight * error).sum()
