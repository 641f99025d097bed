"""GTR's objective: the thought before an action counts less than the action in the ratio of a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turngate.parts import when_used
from turngate.trainer.loss.base import Gain, GainOf, Objective
from turngate.trainer.loss.tokens import MAX_LOG_RATIO, Memory, Needs, Tokens, owners, sum_over

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


class GtrClipped(Objective):
    """GTR: PPO's clipped surrogate with one ratio per turn, in which thoughts count less than the action.

    ``r = exp(λ·Σ_thought x + Σ_action x)`` with λ = ``thought_weight``, and ``min(r·A, clip(r, 1−clip, 1+clip)·A)``. If
    the ratio of any turn of an update is above ``largest``, only the clipped term is used in that update, so no turn
    that is out of bounds has a gradient. Thought −4.0 (before −4.4), action −1.0 (before −1.2): r = e^0.4 = 1.491825,
    and for A > 0 the value is 1.1·A.

    Each token carries the value of its turn and, as its gradient, its number of siblings in the turn times its weight:
    under an aggregate that averages inside the turn, value and gradient are the published ones. On-policy the gradient
    of a turn is ``A·Σ weight·∇log π``, which is REINFORCE's for the action and λ times that for the thought. Use it
    with aggregate "turn". A turn without a thought is all action.

    Source: GTR, https://arxiv.org/abs/2503.08525, and its code: λ 0.5, clip 0.1, largest 10. Its thoughts are corrected
    by auxiliary loss "gtr".
    """

    type: Literal["gtr"] = "gtr"
    thought_weight: float = Field(0.5, ge=0, le=1)
    """Weight of the tokens of a thought in the ratio of their turn (λ); those of the action have 1."""
    clip: float = Field(0.1, gt=0, lt=1)
    """A turn whose ratio is more than this away from 1 is pushed no further."""
    largest: float = Field(10.0, gt=1)
    """Ratio of a turn above which the update has no gradient from any turn that is out of bounds."""

    @property
    def needs(self) -> Needs:
        """Which tokens are thoughts, and the largest ratio of the whole batch."""
        return Needs(survey=True, thoughts=True)

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
        """Whether any turn of the batch is so far off that only the clipped term is used."""
        log_ratio = self._log_ratio(tokens)[tokens.counted]
        far = bool(len(log_ratio)) and bool((log_ratio.exp() > self.largest).any())
        return _Bounded(objective=self, only_clipped=far), memory

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. If ``survey`` was not called, ``tokens`` are taken for the whole batch."""
        gain_of, _ = self.survey(tokens, {}, 0)
        return gain_of(tokens)

    def gain(self, tokens: Tokens, *, only_clipped: bool) -> Gain:
        """The value of each token, [S], after the survey."""
        weight = self._weights(tokens)
        ones = torch.ones_like(weight)
        n = sum_over(ones, owners(tokens, "turn"), tokens.counted)
        log_pi = torch.where(tokens.counted, tokens.logprob, 0)
        follow = (n * weight * (log_pi - log_pi.detach())).exp()
        ratio, advantage = self._log_ratio(tokens).detach().exp() * follow, tokens.advantage
        free, clipped = ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage
        beyond = (ratio - 1).abs() > self.clip
        if only_clipped:
            return Gain(value=clipped, limited=beyond)
        return Gain(value=torch.minimum(free, clipped), limited=free > clipped)

    def _weights(self, tokens: Tokens) -> torch.Tensor:
        thought = tokens.required("thought", "GTR")
        return torch.where(thought > 0, self.thought_weight, 1.0).to(tokens.logprob.dtype)

    def _log_ratio(self, tokens: Tokens) -> torch.Tensor:
        """The logarithm of the ratio of each token's turn: [S]."""
        total = sum_over(self._weights(tokens) * tokens.log_ratio(), owners(tokens, "turn"), tokens.counted)
        return total.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounded:
    """The objective on the passes of one batch."""

    objective: GtrClipped
    only_clipped: bool

    def __call__(self, tokens: Tokens) -> Gain:
        return self.objective.gain(tokens, only_clipped=self.only_clipped)
