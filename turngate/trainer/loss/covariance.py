"""Entropy control by covariance: the few tokens that would cost the most entropy are held back.

The entropy of a softmax policy falls with Cov(log π, A) (Cui et al., https://arxiv.org/abs/2505.22617). A token's part
of it is ``(A − mean A)·(log π − mean log π)`` over the policy tokens of the batch of one optimizer step. A few tokens
hold nearly all of it. Which ones is a question about the whole batch, so ``survey`` fixes them; called without, the
given tokens are taken for the batch. All A equal: every covariance is 0.

A known trap with agents: the syntax of a tool call is likely under the policy and inherits the turn's A, so it attracts
the selection.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from turngate.errors import ConfigError
from turngate.trainer.loss.objectives import clipped_gain
from turngate.trainer.loss.tokens import Gain, Memory, Needs, Tokens
from turngate.types import derive_seed


def covariance(logprob: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """``(A − mean A)·(log π − mean log π)``: [M]."""
    return (advantage - advantage.mean()) * (logprob - logprob.mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class KlCov:
    """KL-Cov: ``r·A``, and at the tokens of highest covariance ``r·A − coef·|log π − log π_old|``. Nothing is clipped.

    Chosen are the top ``share`` of the batch's policy tokens, at least one; ties go to the earlier token. Defaults of
    the authors' code: share 0.002, coef 1. At r = 1 the penalty has no gradient, so on-policy this is REINFORCE and
    only later steps on the same data are held. Raises ConfigError for settings out of range or without effect.
    """

    share: float = 0.002
    coef: float = 1.0
    _chosen: torch.Tensor | None = field(default=None, repr=False, compare=False)
    needs: ClassVar[Needs] = Needs(survey=True)
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.coef <= 0:
            raise ConfigError(f"KlCov needs 0 < share ≤ 1 and coef > 0, found share={self.share}, coef={self.coef}")

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[KlCov, Memory]:
        """Fix the chosen tokens."""
        return replace(self, _chosen=self._choose(tokens)), memory

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are the chosen tokens."""
        x = tokens.log_ratio()
        chosen = torch.isin(tokens.place, self._choose(tokens) if self._chosen is None else self._chosen)
        value = x.exp() * tokens.advantage - torch.where(chosen, self.coef * x.abs(), 0)
        return Gain(value=value, limited=chosen)

    def _choose(self, tokens: Tokens) -> torch.Tensor:
        at = tokens.counted
        if not at.any():
            return tokens.place[:0]
        found = covariance(tokens.logprob.detach()[at], tokens.advantage[at])
        number = max(1, int(len(found) * self.share))
        return tokens.place[at][found.argsort(descending=True, stable=True)[:number]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipCov:
    """Clip-Cov: PPO's clipped surrogate, and no gradient at a few tokens with covariance between ``low`` and ``high``.

    ``share`` of the batch's policy tokens, at least one, are drawn without replacement among those strictly inside the
    bounds that the clip does not hold already; with fewer candidates, all of them; with none, this is the clipped
    surrogate without dual clip. Each token's lot derives from ``seed``, its sampler log-probability and its credit, so
    neither packing nor resuming changes the draw. Defaults of the authors' code: share 2e-4, bounds 1 and 5, clip 0.2.
    Raises ConfigError for settings out of range.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    share: float = 2e-4
    low: float = 1.0
    high: float = 5.0
    seed: int = 0
    _chosen: torch.Tensor | None = field(default=None, repr=False, compare=False)
    needs: ClassVar[Needs] = Needs(survey=True)
    uses_ratio: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.low >= self.high:
            raise ConfigError(
                f"ClipCov needs 0 < share ≤ 1 and low < high, found share={self.share}, low={self.low}, "
                f"high={self.high}"
            )
        if not 0 <= self.clip_low <= 1 or self.clip_high < 0:
            raise ConfigError(
                f"ClipCov needs 0 ≤ clip_low ≤ 1 and clip_high ≥ 0, found {self.clip_low}, {self.clip_high}"
            )

    def survey(self, tokens: Tokens, memory: Memory) -> tuple[ClipCov, Memory]:
        """Fix the chosen tokens."""
        return replace(self, _chosen=self._choose(tokens)), memory

    def __call__(self, tokens: Tokens) -> Gain:
        """[S]. ``limited`` are clipped and chosen tokens."""
        gain = self._clipped(tokens)
        chosen = torch.isin(tokens.place, self._choose(tokens) if self._chosen is None else self._chosen)
        return Gain(value=torch.where(chosen, 0, gain.value), limited=gain.limited | chosen)

    def _clipped(self, tokens: Tokens) -> Gain:
        return clipped_gain(tokens.log_ratio().exp(), tokens.advantage, self.clip_low, self.clip_high, None)

    def _choose(self, tokens: Tokens) -> torch.Tensor:
        at = tokens.counted
        if not at.any():
            return tokens.place[:0]
        found = covariance(tokens.logprob.detach()[at], tokens.advantage[at])
        free = ~self._clipped(tokens).limited[at]
        candidates = tokens.place[at][(found > self.low) & (found < self.high) & free]
        number = min(len(candidates), max(1, int(len(found) * self.share)))
        eligible = torch.isin(tokens.place, candidates)
        facts = zip(tokens.sampled_logprob[eligible].tolist(), tokens.advantage[eligible].tolist(), strict=True)
        lots = [derive_seed(self.seed, logprob.hex(), advantage.hex()) for logprob, advantage in facts]
        drawn = sorted(range(len(lots)), key=lots.__getitem__)[:number]
        return tokens.place[eligible][torch.tensor(drawn, dtype=torch.long, device=tokens.place.device)]
