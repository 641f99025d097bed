"""The critic's head: what a state is worth, read off the model's last hidden state, and how it is learned.

``value_L[l]`` is the value of the state after token ``l`` of a batch. So the value of a state in which the agent is to
act stands on the last token before it acts, and the value of the state in which an episode stopped on its last token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueTargets:
    """States, [M, width], and what they were worth: [M] each (see ``value_loss``)."""

    states: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor
    old: torch.Tensor

    def loss(self, head: ValueHead, *, clip: float | None) -> torch.Tensor:
        """The head's loss on these states."""
        return value_loss(head(self.states), self.target, self.weight, old=self.old, clip=clip)


class ValueHead(torch.nn.Module):
    """One number per hidden state, in float32; 0 everywhere until it is trained."""

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

    All are [M]; ``old`` is the value before the update, needed with ``clip`` only. Nothing to learn gives 0.
    """
    error = (value - target).square()
    if clip is not None and old is not None:
        near = old + (value - old).clamp(-clip, clip)
        error = torch.maximum(error, (near - target).square())
    return 0.5 * (weight * error).sum()
