"""Entropy control by covariance: updates are limited at the few tokens that would lower entropy most.

The entropy of a softmax policy falls with Cov(log π, A) (Cui et al., https://arxiv.org/abs/2505.22617). A token's part
of it is ``(A − mean A)·(log π − mean log π)`` over the policy tokens of the batch of one optimizer step. A few tokens
hold nearly all of it. Which ones they are depends on the whole batch, so ``survey`` selects them. If all A are equal,
every covariance is 0.

A known weakness with agents: the syntax of a tool call is likely under the policy and has the turn's A, so its tokens
are often among the selected ones.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from turngate.parts import when_used
from turngate.trainer.loss.base import Gain, GainOf, Objective
from turngate.trainer.loss.objectives import clipped_gain
from turngate.trainer.loss.tokens import Memory, Needs, Tokens
from turngate.types import derive_seed

if TYPE_CHECKING:
    import torch
else:
    torch = when_used("torch")


def covariance(logprob: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """``(A − mean A)·(log π − mean log π)``: [M]."""
    return (advantage - advantage.mean()) * (logprob - logprob.mean())


class _Selective(Objective):
    """Base of the objectives that select some tokens of the whole batch and treat them differently."""

    @property
    def needs(self) -> Needs:
        """The whole batch."""
        return Needs(survey=True)

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]; the selection is made among the given tokens."""
        act, _ = self.survey(tokens, {}, 0)
        return act(tokens)


class KlCov(_Selective):
    """KL-Cov: the policy gradient, with a penalty that keeps the few tokens that lower entropy most near the old
    policy.

    ``r·A``, and at the tokens of highest covariance ``r·A − coef·|log π − log π_old|``. Nothing is clipped.

    Chosen are the top ``share`` of the batch's policy tokens, at least one; ties go to the earlier token. Defaults of
    the authors' code: share 0.002, coef 1. At r = 1 the penalty has no gradient, so on-policy this is REINFORCE, and
    the penalty acts in later updates on the same data only.
    """

    type: Literal["kl_cov"] = "kl_cov"
    share: float = Field(0.002, gt=0, le=1)
    """Share of the batch's tokens that get the penalty: those of highest covariance."""
    coef: float = Field(1.0, gt=0)
    """Strength of the penalty on these tokens, per nat of distance from the old policy."""

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
        """Select the tokens."""
        return partial(self._limited_gain, chosen=self._choose(tokens)), memory

    def _limited_gain(self, tokens: Tokens, *, chosen: torch.Tensor) -> Gain:
        """``limited`` are the chosen tokens, given by their places in the batch."""
        x, held = tokens.log_ratio(), torch.isin(tokens.place, chosen)
        value = x.exp() * tokens.advantage - torch.where(held, self.coef * x.abs(), 0)
        return Gain(value=value, limited=held)

    def _choose(self, tokens: Tokens) -> torch.Tensor:
        at = tokens.counted
        if not at.any():
            return tokens.place[:0]
        found = covariance(tokens.logprob.detach()[at], tokens.advantage[at])
        number = max(1, int(len(found) * self.share))
        return tokens.place[at][found.argsort(descending=True, stable=True)[:number]]


class ClipCov(_Selective):
    """Clip-Cov: PPO's clipped surrogate without a gradient at a few of the tokens that lower entropy.

    ``share`` of the batch's policy tokens, at least one, are drawn without replacement among those strictly inside the
    bounds that are not clipped already; with fewer candidates, all of them; with none, this is the clipped surrogate
    without dual clip. The random number of each token derives from the run's seed, its sampler log-probability and its
    credit, so neither packing nor resuming changes the draw. Defaults of the authors' code: share 2e-4, bounds 1 and 5,
    clip 0.2.
    """

    type: Literal["clip_cov"] = "clip_cov"
    clip_low: float = Field(0.2, ge=0, le=1)
    """The ratio is clipped below 1 − clip_low."""
    clip_high: float = Field(0.2, ge=0)
    """The ratio is clipped above 1 + clip_high."""
    share: float = Field(2e-4, gt=0, le=1)
    """Share of the batch's tokens that are drawn at random to get no gradient."""
    low: float = 1.0
    """Only tokens with a covariance above this may be drawn."""
    high: float = 5.0
    """Only tokens with a covariance below this may be drawn."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:  # also true for NaN
            raise ValueError(f"low {self.low} is not below high {self.high}")
        return self

    def survey(self, tokens: Tokens, memory: Memory, seed: int) -> tuple[GainOf, Memory]:
        """Select the tokens."""
        return partial(self._limited_gain, chosen=self._choose(tokens, seed)), memory

    def _limited_gain(self, tokens: Tokens, *, chosen: torch.Tensor) -> Gain:
        """``limited`` are clipped and chosen tokens, the latter given by their places in the batch."""
        gain, held = self._clipped(tokens), torch.isin(tokens.place, chosen)
        return Gain(value=torch.where(held, 0, gain.value), limited=gain.limited | held)

    def _clipped(self, tokens: Tokens) -> Gain:
        return clipped_gain(tokens.log_ratio().exp(), tokens.advantage, self.clip_low, self.clip_high, None)

    def _choose(self, tokens: Tokens, seed: int) -> torch.Tensor:
        at = tokens.counted
        if not at.any():
            return tokens.place[:0]
        found = covariance(tokens.logprob.detach()[at], tokens.advantage[at])
        free = ~self._clipped(tokens).limited[at]
        candidates = tokens.place[at][(found > self.low) & (found < self.high) & free]
        number = min(len(candidates), max(1, int(len(found) * self.share)))
        eligible = torch.isin(tokens.place, candidates)
        facts = zip(tokens.sampled_logprob[eligible].tolist(), tokens.advantage[eligible].tolist(), strict=True)
        seed = derive_seed(seed, "clip_cov")
        lots = [derive_seed(seed, logprob.hex(), advantage.hex()) for logprob, advantage in facts]
        drawn = sorted(range(len(lots)), key=lots.__getitem__)[:number]
        return tokens.place[eligible][torch.tensor(drawn, dtype=torch.long, device=tokens.place.device)]
